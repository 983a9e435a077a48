// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * The same programs without socket storage, for kernels whose tracing programs have none; and the kprobes.
 */
#define SOCKETS_IN_HASH
#include "traffic.bpf.c"
#include "kprobe.bpf.h"
