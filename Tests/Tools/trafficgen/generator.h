/*
 * trafficgen makes known traffic and prints what its own calls returned: the ground truth of the accuracy tests.
 *
 * A run is a small cast of processes (a server and a client for each address). They share one table of tallies, with one
 * tally for each {socket, process}. Every call that moves payload is wrapped in sent() or received(), which add the call's
 * result if it is positive. Calls that move no payload by definition (MSG_PEEK, MSG_ERRQUEUE) are not wrapped.
 */
#ifndef GENERATOR_H
#define GENERATOR_H

#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>
#include <sys/types.h>
#include <netinet/in.h>

#define KIB 1024UL
#define MIB (1024UL * KIB)
#define COUNT_OF(array) (sizeof(array) / sizeof((array)[0]))

struct address {
	struct sockaddr_storage storage;
	socklen_t length;
};

/* What the command line asked for. */
struct options {
	struct address addresses[4];
	unsigned int address_count;
	int peer_namespace; /* of the servers, with the addresses there; -1: that of the clients */
	unsigned long count; /* 0: the scenario's own default */
	unsigned long rate;
	unsigned long seconds;
	const char *report_socket; /* the daemon's, for programs that report; NULL: no socket */
};

extern struct options options;

/* One process's part in a run. */
struct part {
	unsigned int index; /* which address */
	struct address address;
};

struct scenario {
	const char *name;
	const char *summary;
	void (*server)(const struct part *part);
	void (*client)(const struct part *part);
	bool pauses; /* calls halfway() in both processes */
	/* Changes a sysctl or makes interfaces: runs in a network of its own, unless the caller gives two namespaces. */
	bool private_network;
	bool one_address; /* runs on the first address only, because a second address would add nothing */
	bool kernel_answers; /* has no server; across two namespaces the peer's kernel is the server */
	bool one_namespace; /* means nothing, or does not work, across two namespaces */
	bool by_request; /* left out of `--list`: too large for every run */
};

extern const struct scenario *const scenario_tables[];

/* world.c: the table that all processes of a run share, and the points where they wait for each other. */
void create_world(void);
void join_world(int fd);
int world_fd(void);
void meet(void); /* wait until every process of the cast is here */
void ready(const struct part *part, uint16_t port); /* server: tells the client the port; meets */
uint16_t await_port(const struct part *part); /* client: meets, then returns that port */
void halfway(void); /* where --pause stops all processes */
bool pausing(void);
_Noreturn void skip(const char *reason, ...) __attribute__((format(printf, 1, 2)));
_Noreturn void fail(const char *what, ...) __attribute__((format(printf, 1, 2))); /* with the text of errno */
pid_t spawn(const char *name, void (*body)(void *), void *argument); /* a further process of this part */
void reap(pid_t child); /* waits for the child; fails where the child failed */
void name_process(const char *format, ...) __attribute__((format(printf, 1, 2)));
void note(const char *format, ...) __attribute__((format(printf, 1, 2))); /* one remark for the result's `notes` */
int direct(const struct scenario *scenario, bool pause, int hold_seconds, int timeout_seconds);

/* tally.c: who moved what. */
void watch(int fd, const char *role);
void connected_in(int fd, uint64_t nanoseconds); /* time of its connect(), once: the daemon must not see more */
ssize_t sent(int fd, ssize_t result);
ssize_t received(int fd, ssize_t result);
void sent_by_process(ssize_t result); /* for sockets too many to list: adds to the process alone */
void received_by_process(ssize_t result);
void mark_closed(int fd);
struct tally *account(int fd); /* this process's tally of this socket, for sent_in_all() */
void sent_in_all(struct tally *tally, uint64_t bytes); /* for a process that died before it could tell */
void take_new_name(void); /* after exec */
void exclude(int fd); /* must not appear in any account */
void explained(int fd, uint64_t bytes); /* bytes that this process's reports explain, and that the daemon must accept */
enum verdict { JOINED, DUPLICATE, FOREIGN, IMPOSSIBLE, VERDICTS };
void expect_verdict(enum verdict verdict, unsigned int records); /* what the daemon must say to so many more records */

/* result.c */
void print_result(const struct scenario *scenario, const char *phase);

/* net.c: sockets. Each of these fails the run instead of returning an error. */
int open_socket(int family, int type, int protocol);
int listen_at(const struct part *part, int protocol, uint16_t *port);
int accept_from(int listener);
int connect_to(const struct part *part, int protocol, uint16_t port);
int timed_connect_to(const struct part *part, int protocol, uint16_t port); /* with connected_in() */
int serve_one(const struct part *part, int protocol); /* a server that accepts one connection */
int call(const struct part *part, int protocol); /* its client */
void hang_up(int fd); /* closes, and marks the socket as one that may be gone from the daemon's list */
int bind_at(const struct part *part, int type, int protocol, uint16_t *port);
struct address with_port(const struct part *part, uint16_t port);
void send_all(int fd, size_t bytes, size_t chunk);
void receive_all(int fd, size_t bytes, size_t chunk); /* exactly so many */
size_t receive_to_end(int fd, size_t chunk);
void set_option(int fd, int level, int name, int value);
void set_sysctl(const char *path, const char *value);
void raise_file_limit(unsigned long files);
char *buffer(void); /* 1 MiB of something, for reading and writing */
void pause_ms(unsigned int milliseconds);
uint64_t now_ns(void);

/* network.c: network namespaces and interfaces. */
bool own_network(void); /* enters a namespace of its own, with loopback up; false with errno where that fails */
void make_veth(const char *name, const char *peer, pid_t owner); /* peer: in the owner's network; owner 0: in this one, and `name` can send */
void bring_up(const char *interface);
void give_address(const char *interface, const struct address *address);
void set_offloads(const char *interface, bool on);

/* namespace.c: which network a process is in. */
bool can_cross(const struct scenario *scenario); /* server and client may be in two namespaces */
int open_namespace(const char *path);
void enter_namespace(int fd);
uint64_t own_namespace(void); /* inode number */

/* scale.c: one of the processes of `short-lived`, after exec. */
int oneshot(int argc, char **argv);
/* process.c: the second half of `exec`, in the program that took the place of the first. */
int second_program(int argc, char **argv);
/* fetch.c: `trafficgen fetch SOCKET PATH`, a GET over a Unix socket for machines without curl. */
int fetch(int argc, char **argv);
int age(int argc, char **argv); /* `trafficgen age SOCKET`: the age of a snapshot on its arrival */
/* flood.c: `trafficgen flood KIND SECONDS`, what a hostile user does. */
int flood(int argc, char **argv);

#endif
