#pragma once
#include <linux/perf_event.h>
#include <sys/syscall.h>
#include <unistd.h>
#include <bpf/bpf.h>
#include <bpf/btf.h>
#include <bpf/libbpf.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

// Returns the whole text of a message of libbpf, which may have megabytes. The caller frees it. NULL: no memory.
static inline char *shim_message(const char *format, va_list arguments)
{
	va_list again;
	char *text;
	int length;

	va_copy(again, arguments);
	length = vsnprintf(NULL, 0, format, again);
	va_end(again);
	text = length < 0 ? NULL : malloc((size_t)length + 1);
	if (text)
		vsnprintf(text, (size_t)length + 1, format, arguments);
	return text;
}

// libbpf's option structures end in padding that libbpf requires to be zero. A Swift initialiser zeroes the fields but
// not the padding, so these structures are made here.

static inline struct bpf_object *shim_open_object(const void *elf, size_t size, const char *name)
{
	LIBBPF_OPTS(bpf_object_open_opts, options, .object_name = name);

	return bpf_object__open_mem(elf, size, &options);
}

static inline struct bpf_link *shim_attach_iterator(const struct bpf_program *program, int map)
{
	union bpf_iter_link_info info = { .map.map_fd = map };
	LIBBPF_OPTS(bpf_iter_attach_opts, options, .link_info = &info, .link_info_len = sizeof(info));

	return bpf_program__attach_iter(program, &options);
}

/*
 * Makes a map with one element, which may be an array like `inner`. Returns its descriptor, or a negative number and
 * errno.
 */
static inline int shim_create_array_of_maps(const char *name, int inner)
{
	LIBBPF_OPTS(bpf_map_create_opts, options, .inner_map_fd = inner);

	return bpf_map_create(BPF_MAP_TYPE_ARRAY_OF_MAPS, name, sizeof(int), sizeof(int), 1, &options);
}

/*
 * Opens an event of the kernel's tracing directory, to which a program can be attached. The program then runs on every
 * processor.
 */
static inline int shim_open_tracepoint(unsigned long long id)
{
	struct perf_event_attr attributes = { .type = PERF_TYPE_TRACEPOINT, .size = sizeof(attributes), .config = id };

	return (int)syscall(SYS_perf_event_open, &attributes, -1, 0, -1, PERF_FLAG_FD_CLOEXEC);
}

/* Loads a program that only returns and is attached to nothing. */
static inline int shim_load_empty_program(void)
{
	const struct bpf_insn instructions[] = {
		{ .code = BPF_ALU64 | BPF_MOV | BPF_K, .dst_reg = BPF_REG_0, .imm = 0 },
		{ .code = BPF_JMP | BPF_EXIT },
	};

	return bpf_prog_load(BPF_PROG_TYPE_SOCKET_FILTER, "empty", "GPL", instructions, 2, NULL);
}

/*
 * Runs the program `times` times on a packet of zeroes. Returns the average nanoseconds of a run, or a negative number
 * and errno.
 */
static inline int shim_run_program(int program, int times)
{
	char packet[64] = { 0 };
	LIBBPF_OPTS(bpf_test_run_opts, options, .data_in = packet, .data_size_in = sizeof(packet), .repeat = times);
	int result = bpf_prog_test_run_opts(program, &options);

	return result < 0 ? result : (int)options.duration;
}

// A BPF ring is shared memory: the other side is the kernel, so these loads and stores have an order.

static inline unsigned long long shim_load_position(const void *position)
{
	return __atomic_load_n((const unsigned long long *)position, __ATOMIC_ACQUIRE);
}

static inline void shim_store_position(void *position, unsigned long long value)
{
	__atomic_store_n((unsigned long long *)position, value, __ATOMIC_RELEASE);
}

/* The first word of a record's header: its length and BPF_RINGBUF_BUSY_BIT, BPF_RINGBUF_DISCARD_BIT. */
static inline unsigned int shim_load_record_length(const void *header)
{
	return __atomic_load_n((const unsigned int *)header, __ATOMIC_ACQUIRE);
}
