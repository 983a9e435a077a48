/* The tallies as one JSON object. */
#include "generator.h"
#include "world.h"

#include <arpa/inet.h>
#include <inttypes.h>
#include <stdio.h>
#include <sys/utsname.h>
#include <unistd.h>

static void print_address(const char *name, const struct sockaddr_in6 *address)
{
	char text[INET6_ADDRSTRLEN];
	const struct sockaddr_in *four = (const struct sockaddr_in *)address;
	bool is_four = address->sin6_family == AF_INET;

	if (!address->sin6_port)
		return;
	inet_ntop(address->sin6_family, is_four ? (const void *)&four->sin_addr : &address->sin6_addr, text, sizeof(text));
	printf(",\"%s\":{\"address\":\"%s\",\"port\":%u}", name, text, ntohs(address->sin6_port));
}

static const char *protocol_name(const struct tally *tally)
{
	if (tally->family == AF_PACKET)
		return "packet";
	if (tally->type == SOCK_RAW)
		return "raw";
	switch (tally->protocol) {
	case IPPROTO_TCP: return "tcp";
	case IPPROTO_UDP: return "udp";
	case IPPROTO_ICMP: return "icmp";
	case IPPROTO_ICMPV6: return "icmpv6";
	case IPPROTO_DCCP: return "dccp";
	case IPPROTO_SCTP: return "sctp";
	case IPPROTO_UDPLITE: return "udplite";
	case 262: return "mptcp";
	default: return "other";
	}
}

static const char *family_name(int family)
{
	return family == AF_PACKET ? "packet" : family == AF_INET ? "ipv4" : "ipv6";
}

static const char *role_name(char role)
{
	return role == 'c' ? "client" : role == 's' ? "server" : role == 'l' ? "listener" : "peer";
}

static void print_bytes(const struct tally *tally)
{
	printf("\"sent\":%" PRIu64 ",\"received\":%" PRIu64 ",\"explained\":%" PRIu64 "}", tally->sent, tally->received,
	       tally->explained);
}

static void print_owner(const struct tally *tally)
{
	printf("\"pid\":%d,\"start_boottime_ticks\":%" PRIu64 ",", tally->pid, tally->start_ticks);
}

static void print_sockets(void)
{
	const char *separator = "";

	printf(",\"sockets\":[");
	for (uint32_t i = 0; i < world->tally_count; i++) {
		const struct tally *tally = &world->tallies[i];

		if (!tally->cookie || tally->excluded)
			continue;
		printf("%s{\"cookie\":%" PRIu64 ",", separator, tally->cookie);
		print_owner(tally);
		printf("\"protocol\":\"%s\",\"family\":\"%s\"", protocol_name(tally), family_name(tally->family));
		printf(",\"open\":%s", tally->closed ? "false" : "true");
		if (tally->role)
			printf(",\"role\":\"%s\"", role_name(tally->role));
		if (tally->connect_ns)
			printf(",\"connect_ns\":%" PRIu64, tally->connect_ns);
		print_address("local", &tally->local);
		print_address("remote", &tally->remote);
		putchar(',');
		print_bytes(tally);
		separator = ",";
	}
	printf("]");
}

static bool same_process(const struct tally *one, const struct tally *other)
{
	return one->pid == other->pid && one->start_ticks == other->start_ticks;
}

/* A process's total over its sockets, listed or not. Quadratic in the number of processes, of which there are few. */
static void print_processes(void)
{
	const char *separator = "";

	printf(",\"processes\":[");
	for (uint32_t i = 0; i < world->tally_count; i++) {
		const struct tally *first = &world->tallies[i];
		struct tally total = *first;
		bool seen = false;

		for (uint32_t j = 0; j < i && !seen; j++)
			seen = same_process(&world->tallies[j], first);
		if (seen)
			continue;
		total.sent = total.received = total.explained = 0;
		for (uint32_t j = i; j < world->tally_count; j++) {
			const struct tally *other = &world->tallies[j];

			if (!same_process(other, first) || other->excluded)
				continue;
			total.sent += other->sent;
			total.received += other->received;
			total.explained += other->explained;
		}
		printf("%s{", separator);
		print_owner(&total);
		printf("\"name\":\"%s\",\"network_namespace\":%" PRIu64 ",", total.name, total.network_namespace);
		print_bytes(&total);
		separator = ",";
	}
	printf("]");
}

static void print_excluded(void)
{
	const char *separator = "";

	printf(",\"excluded\":[");
	for (uint32_t i = 0; i < world->tally_count; i++) {
		if (!world->tallies[i].excluded)
			continue;
		printf("%s%" PRIu64, separator, world->tallies[i].cookie);
		separator = ",";
	}
	printf("]");
}

/* By the names of the daemon's counters. */
static void print_reports(void)
{
	static const char *const names[VERDICTS] = { "joined", "duplicate", "foreign", "impossible" };

	printf(",\"reports\":{");
	for (int i = 0; i < VERDICTS; i++)
		printf("%s\"%s\":%" PRIu64, i ? "," : "", names[i], world->verdicts[i]);
	printf("}");
}

void print_result(const struct scenario *scenario, const char *phase)
{
	struct utsname name;

	uname(&name);
	printf("{\"scenario\":\"%s\",\"phase\":\"%s\",\"kernel\":\"%s\",\"clock_ticks_per_second\":%ld", scenario->name, phase,
	       name.release, sysconf(_SC_CLK_TCK));
	printf(",\"across_namespaces\":%s", options.peer_namespace >= 0 ? "true" : "false");
	if (world->reason[0])
		printf(",\"reason\":\"%s\"", world->reason);
	if (world->notes[0])
		printf(",\"notes\":\"%s\"", world->notes);
	print_sockets();
	print_processes();
	print_excluded();
	print_reports();
	printf("}\n");
	fflush(stdout);
}
