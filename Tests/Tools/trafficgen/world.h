/* The memory that all processes of a run share. For world.c, tally.c and result.c alone. */
#ifndef WORLD_H
#define WORLD_H

#include "generator.h"

#include <netinet/in.h>
#include <stdbool.h>
#include <stdint.h>

/* Exit code of a part that cannot run here. */
enum { EXIT_SKIPPED = 77, EXIT_STALLED = 75 /* EX_TEMPFAIL */ };

enum { TALLY_LIMIT = 1 << 17, TALLY_SLOTS = 1 << 18 };

/* What one process moved through one socket. */
struct tally {
	uint64_t cookie; /* 0: through sockets too many to list */
	uint64_t start_ticks;
	uint64_t network_namespace;
	uint64_t sent;
	uint64_t received;
	uint64_t explained; /* of both, by reports to the daemon */
	uint64_t connect_ns; /* what the blocking connect() took; 0: not measured */
	pid_t pid;
	int family, type, protocol;
	struct sockaddr_in6 local, remote; /* or struct sockaddr_in */
	char name[17];
	char role; /* first letter of client, server, listener, peer */
	bool closed;
	bool excluded;
};

struct world {
	bool pause;
	char lock; /* of the table, while a tally is added */
	uint32_t stage; /* grows each time that all have met */
	uint32_t arrived;
	uint16_t ports[4]; /* for each address, the server's */
	char reason[160]; /* why the run is skipped */
	char notes[400];
	uint64_t verdicts[VERDICTS]; /* that the daemon shall give on reports */
	uint32_t tally_count;
	uint32_t slots[TALLY_SLOTS];
	struct tally tallies[TALLY_LIMIT];
};

extern struct world *world;

#endif
