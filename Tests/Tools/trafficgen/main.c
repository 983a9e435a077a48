#include "generator.h"

#include <arpa/inet.h>
#include <getopt.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct options options = { .peer_namespace = -1 };

enum { EXIT_USAGE = 64 };

static const struct scenario *find_scenario(const char *name)
{
	for (const struct scenario *const *table = scenario_tables; *table; table++) {
		for (const struct scenario *scenario = *table; scenario->name; scenario++) {
			if (!strcmp(scenario->name, name))
				return scenario;
		}
	}
	return NULL;
}

static void list_scenarios(bool all)
{
	for (const struct scenario *const *table = scenario_tables; *table; table++) {
		for (const struct scenario *scenario = *table; scenario->name; scenario++) {
			if (all || !scenario->by_request)
				printf("%s\t%s\n", scenario->name, scenario->summary);
		}
	}
}

static const char usage[] =
	"Makes known traffic and prints, as one JSON object, what its calls returned for each socket and process.\n"
	"\n"
	"usage: trafficgen [options] SCENARIO\n"
	"       trafficgen fetch SOCKET PATH    GET over a Unix socket, prints the body\n"
	"       trafficgen age SOCKET           how old a snapshot is on its arrival, in nanoseconds\n"
	"       trafficgen flood KIND SECONDS   what a hostile user does, as uid 65534, until a line on standard input\n"
	"\n"
	"  --address A    where the servers listen; may be given again (127.0.0.1 and ::1)\n"
	"  --peer-namespace FILE    put the servers into this network namespace, which has the addresses; what can't be\n"
	"                 split that way stays here, on loopback\n"
	"  --hold S       keep the sockets open after printing, until a line on standard input or S seconds\n"
	"  --pause        stop halfway, print, and wait for a line on standard input before going on\n"
	"  --count N, --rate N, --seconds N    amounts, for scenarios that have them\n"
	"  --report-socket FILE    the daemon's, for programs that tell it what their bytes are for\n"
	"  --timeout S    give up after S seconds without progress (120)\n"
	"  --list         name and summary of each scenario; --list-all adds the large ones\n"
	"\n"
	"Exit codes: 0 done, 64 usage, 75 not finished in time, 77 not possible here (the JSON has the reason), 1 anything else.\n";

static _Noreturn void refuse(const char *message, const char *detail)
{
	fprintf(stderr, "trafficgen: %s%s\n%s", message, detail, usage);
	exit(EXIT_USAGE);
}

static void add_address(const char *text)
{
	struct address *address = &options.addresses[options.address_count];
	struct sockaddr_in *four = (struct sockaddr_in *)&address->storage;
	struct sockaddr_in6 *six = (struct sockaddr_in6 *)&address->storage;

	if (options.address_count == COUNT_OF(options.addresses))
		refuse("too many addresses: ", text);
	if (inet_pton(AF_INET, text, &four->sin_addr) == 1) {
		four->sin_family = AF_INET;
		address->length = sizeof(*four);
	} else if (inet_pton(AF_INET6, text, &six->sin6_addr) == 1) {
		six->sin6_family = AF_INET6;
		address->length = sizeof(*six);
	} else {
		refuse("not an IP address: ", text);
	}
	options.address_count++;
}

static unsigned long number(const char *text)
{
	char *end;
	unsigned long value = strtoul(text, &end, 10);

	if (!*text || *text == '-' || *end)
		refuse("not a number: ", text);
	return value;
}

enum option_key { ADDRESS = 1, PEER_NAMESPACE, HOLD, PAUSE, COUNT, RATE, SECONDS, REPORT_SOCKET, TIMEOUT, LIST, LIST_ALL, HELP };

static const struct option long_options[] = {
	{ "address", required_argument, NULL, ADDRESS },
	{ "peer-namespace", required_argument, NULL, PEER_NAMESPACE },
	{ "hold", required_argument, NULL, HOLD },
	{ "pause", no_argument, NULL, PAUSE },
	{ "count", required_argument, NULL, COUNT },
	{ "rate", required_argument, NULL, RATE },
	{ "seconds", required_argument, NULL, SECONDS },
	{ "report-socket", required_argument, NULL, REPORT_SOCKET },
	{ "timeout", required_argument, NULL, TIMEOUT },
	{ "list", no_argument, NULL, LIST },
	{ "list-all", no_argument, NULL, LIST_ALL },
	{ "help", no_argument, NULL, HELP },
	{ 0 },
};

int main(int argc, char **argv)
{
	const struct scenario *scenario;
	unsigned long hold_seconds = 0, timeout_seconds = 120;
	bool pause = false;
	int key;

	if (argc > 1 && !strcmp(argv[1], "oneshot"))
		return oneshot(argc - 1, argv + 1);
	if (argc > 1 && !strcmp(argv[1], "second"))
		return second_program(argc - 1, argv + 1);
	if (argc > 1 && !strcmp(argv[1], "fetch"))
		return fetch(argc - 1, argv + 1);
	if (argc > 1 && !strcmp(argv[1], "age"))
		return age(argc - 1, argv + 1);
	if (argc > 1 && !strcmp(argv[1], "flood"))
		return flood(argc - 1, argv + 1);
	while ((key = getopt_long(argc, argv, "", long_options, NULL)) != -1) {
		switch ((enum option_key)key) {
		case ADDRESS: add_address(optarg); break;
		case PEER_NAMESPACE: options.peer_namespace = open_namespace(optarg); break;
		case HOLD: hold_seconds = number(optarg); break;
		case PAUSE: pause = true; break;
		case COUNT: options.count = number(optarg); break;
		case RATE: options.rate = number(optarg); break;
		case SECONDS: options.seconds = number(optarg); break;
		case REPORT_SOCKET: options.report_socket = optarg; break;
		case TIMEOUT: timeout_seconds = number(optarg); break;
		case LIST:
		case LIST_ALL: list_scenarios(key == LIST_ALL); return 0;
		case HELP: fputs(usage, stdout); return 0;
		default: return EXIT_USAGE;
		}
	}
	if (argc - optind != 1)
		refuse("one scenario, please", "");
	scenario = find_scenario(argv[optind]);
	if (!scenario)
		refuse("no such scenario: ", argv[optind]);
	if (pause && !scenario->pauses)
		refuse("this scenario has no middle to pause at: ", scenario->name);
	if (options.peer_namespace >= 0 && !can_cross(scenario)) {
		options.peer_namespace = -1;
		options.address_count = 0;
	}
	if (!options.address_count) {
		add_address("127.0.0.1");
		add_address("::1");
	}
	signal(SIGPIPE, SIG_IGN);
	create_world();
	return direct(scenario, pause, hold_seconds, timeout_seconds);
}
