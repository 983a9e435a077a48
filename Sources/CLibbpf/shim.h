#pragma once
#include <bpf/bpf.h>
#include <bpf/btf.h>
#include <bpf/libbpf.h>

// libbpf's option structures end in padding that it wants to be zero. A Swift initialiser zeroes the fields and leaves the
// padding as it is, so these are made here.

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
