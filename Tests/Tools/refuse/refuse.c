/*
 * A kernel that refuses some BPF programs: preloaded into a program, this library answers for the kernel.
 *
 * LD_PRELOAD=refuse.so REFUSE_BPF=NAME[,NAME...] PROGRAM...
 *
 * NAME is the name of a program (sweep_sockets), or the beginning of a section and a slash (iter/, tp_btf/), or an
 * iterator by what it walks (iter/bpf_sk_storage_map). Such a program gets EPERM when it is loaded, as it does from
 * kernels that are locked down; with REFUSE_BPF_AT=attach it gets EPERM when it is attached.
 *
 * The kernel keeps only 15 letters of a program's name, so the name is read from the program's type information.
 */
#define _GNU_SOURCE
#include <bpf/btf.h>
#include <dlfcn.h>
#include <errno.h>
#include <linux/bpf.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

typedef long (*system_call)(long number, ...);

static system_call next_call;

static long bpf_call(int command, union bpf_attr *attr, size_t size)
{
	return next_call(SYS_bpf, command, attr, size);
}

/* The type information that the program was loaded with, in memory that the caller frees. */
static void *type_information(int descriptor, __u32 *length)
{
	struct bpf_btf_info info = {};
	union bpf_attr attr = { .info.bpf_fd = descriptor, .info.info_len = sizeof(info), .info.info = (__u64)&info };
	void *data;

	if (bpf_call(BPF_OBJ_GET_INFO_BY_FD, &attr, sizeof(attr)) || !(data = malloc(info.btf_size)))
		return NULL;
	*length = info.btf_size;
	info = (struct bpf_btf_info){ .btf = (__u64)data, .btf_size = *length };
	attr.info.info_len = sizeof(info);
	if (bpf_call(BPF_OBJ_GET_INFO_BY_FD, &attr, sizeof(attr)) == 0)
		return data;
	free(data);
	return NULL;
}

/* The program's own name, or what the kernel gets of it. */
static void find_name(const union bpf_attr *attr, char *name, size_t size)
{
	const struct bpf_func_info *first = (const void *)attr->func_info;
	__u32 length = 0;
	void *data;
	struct btf *btf;

	snprintf(name, size, "%.*s", BPF_OBJ_NAME_LEN, attr->prog_name);
	if (!attr->func_info_cnt || !(data = type_information(attr->prog_btf_fd, &length)))
		return;
	btf = btf__new(data, length);
	free(data);
	if (!btf)
		return;
	snprintf(name, size, "%s", btf__name_by_offset(btf, btf__type_by_id(btf, first->type_id)->name_off));
	btf__free(btf);
}

/* The section of the program, as far as the kernel is told of it. */
static void find_section(const union bpf_attr *attr, char *section, size_t size)
{
	static struct btf *kernel;
	const char *target = "";

	if (attr->prog_type == BPF_PROG_TYPE_TRACING && !kernel)
		kernel = btf__load_vmlinux_btf();
	if (attr->prog_type == BPF_PROG_TYPE_TRACING && kernel && attr->attach_btf_id)
		target = btf__name_by_offset(kernel, btf__type_by_id(kernel, attr->attach_btf_id)->name_off);
	if (attr->prog_type == BPF_PROG_TYPE_TRACING && attr->expected_attach_type == BPF_TRACE_ITER)
		snprintf(section, size, "iter/%s", target + strlen("bpf_iter_"));
	else if (attr->prog_type == BPF_PROG_TYPE_TRACING && attr->expected_attach_type == BPF_TRACE_RAW_TP)
		snprintf(section, size, "tp_btf/%s", target);
	else if (attr->prog_type == BPF_PROG_TYPE_TRACING && attr->expected_attach_type == BPF_TRACE_FEXIT)
		snprintf(section, size, "fexit/%s", target);
	else if (attr->prog_type == BPF_PROG_TYPE_CGROUP_SKB || attr->prog_type == BPF_PROG_TYPE_CGROUP_SOCK)
		snprintf(section, size, "cgroup/");
	else if (attr->prog_type == BPF_PROG_TYPE_KPROBE)
		snprintf(section, size, "kprobe/");
	else
		section[0] = 0;
}

static bool is_refused(const union bpf_attr *attr)
{
	const char *refused = getenv("REFUSE_BPF"), *end;
	char name[128], section[128];
	size_t length;

	if (!refused || !*refused)
		return false;
	find_name(attr, name, sizeof(name));
	find_section(attr, section, sizeof(section));
	for (; *refused; refused = *end ? end + 1 : end) {
		end = strchrnul(refused, ',');
		length = end - refused;
		if (length && (strlen(name) == length && !strncmp(name, refused, length)))
			return true;
		if (memchr(refused, '/', length) && !strncmp(section, refused, length) &&
		    (refused[length - 1] == '/' || !section[length]))
			return true;
	}
	return false;
}

/* Descriptors of programs that are refused when they are attached. */
static unsigned char marked[1 << 16];

static bool is_at_attaching(void)
{
	const char *moment = getenv("REFUSE_BPF_AT");

	return moment && !strcmp(moment, "attach");
}

static long refuse(void)
{
	errno = EPERM;
	return -1;
}

long syscall(long number, ...)
{
	long a, b, c, d, e, f, result;
	union bpf_attr *attr;
	va_list list;
	bool refused;

	if (!next_call)
		next_call = (system_call)dlsym(RTLD_NEXT, "syscall");
	va_start(list, number);
	a = va_arg(list, long);
	b = va_arg(list, long);
	c = va_arg(list, long);
	d = va_arg(list, long);
	e = va_arg(list, long);
	f = va_arg(list, long);
	va_end(list);
	if (number != SYS_bpf)
		return next_call(number, a, b, c, d, e, f);
	attr = (union bpf_attr *)b;
	if (a == BPF_LINK_CREATE && attr->link_create.prog_fd < sizeof(marked) && marked[attr->link_create.prog_fd])
		return refuse();
	if (a == BPF_RAW_TRACEPOINT_OPEN && attr->raw_tracepoint.prog_fd < sizeof(marked) && marked[attr->raw_tracepoint.prog_fd])
		return refuse();
	refused = a == BPF_PROG_LOAD && is_refused(attr);
	if (refused && !is_at_attaching())
		return refuse();
	result = next_call(number, a, b, c, d, e, f);
	if (a == BPF_PROG_LOAD && result >= 0 && result < (long)sizeof(marked))
		marked[result] = refused;
	return result;
}
