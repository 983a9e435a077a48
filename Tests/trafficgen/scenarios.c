#include "scenarios.h"

const struct scenario *const scenario_tables[] = {
	tcp_scenarios,
	tcp_flag_scenarios,
	tcp_flow_scenarios,
	tcp_connection_scenarios,
	tcp_end_scenarios,
	zerocopy_scenarios,
	splice_scenarios,
	ktls_scenarios,
	sockmap_scenarios,
	datagram_scenarios,
	protocol_scenarios,
	transport_scenarios,
	packet_scenarios,
	sharing_scenarios,
	process_scenarios,
	uring_scenarios,
	scale_scenarios,
	NULL,
};
