// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * The same programs for kernels that have no socket storage for them, and the kprobes.
 */
#define SOCKETS_IN_HASH
#include "traffic.bpf.c"
