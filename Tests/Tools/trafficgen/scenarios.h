/* The tables of scenarios, one for each kind of traffic; each ends with an empty entry. */
#ifndef SCENARIOS_H
#define SCENARIOS_H

#include "generator.h"

extern const struct scenario tcp_scenarios[];
extern const struct scenario tcp_flag_scenarios[];
extern const struct scenario tcp_flow_scenarios[];
extern const struct scenario tcp_connection_scenarios[];
extern const struct scenario tcp_end_scenarios[];
extern const struct scenario zerocopy_scenarios[];
extern const struct scenario splice_scenarios[];
extern const struct scenario ktls_scenarios[];
extern const struct scenario sockmap_scenarios[];
extern const struct scenario datagram_scenarios[];
extern const struct scenario mptcp_scenarios[];
extern const struct scenario protocol_scenarios[];
extern const struct scenario transport_scenarios[];
extern const struct scenario packet_scenarios[];
extern const struct scenario offload_scenarios[];
extern const struct scenario report_scenarios[];
extern const struct scenario sharing_scenarios[];
extern const struct scenario prefork_scenarios[];
extern const struct scenario process_scenarios[];
extern const struct scenario twin_scenarios[];
extern const struct scenario uring_scenarios[];
extern const struct scenario uring_buffer_scenarios[];
extern const struct scenario scale_scenarios[];
extern const struct scenario churn_scenarios[];

#endif
