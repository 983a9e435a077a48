/*
 * Hides the variable `runqueues` of the kernel, by which trafficd sees whether type information has variables at all.
 * Preloaded into a daemon that then can't see whether the kernel skips programs, and that attaches a twin to each program
 * that counts calls.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <string.h>

struct btf;

int btf__find_by_name_kind(const struct btf *types, const char *name, unsigned int kind)
{
	int (*next)(const struct btf *, const char *, unsigned int) = dlsym(RTLD_NEXT, "btf__find_by_name_kind");

	return strcmp(name, "runqueues") ? next(types, name, kind) : -ENOENT;
}
