/* Loads a BPF object, attaches the programs whose names begin with a PREFIX and stays until its standard input ends. */
#include <bpf/libbpf.h>
#include <fcntl.h>
#include <mntent.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

static int open_cgroups(void)
{
	FILE *mounts = setmntent("/proc/self/mounts", "r");
	struct mntent *mount;

	while (mounts && (mount = getmntent(mounts)))
		if (!strcmp(mount->mnt_type, "cgroup2"))
			return open(mount->mnt_dir, O_RDONLY | O_CLOEXEC);
	return -1;
}

static bool is_wanted(const struct bpf_program *program, char **prefixes)
{
	for (; *prefixes; prefixes++)
		if (!strncmp(bpf_program__name(program), *prefixes, strlen(*prefixes)))
			return true;
	return false;
}

int main(int argc, char **argv)
{
	struct bpf_object *object;
	struct bpf_program *program;

	if (argc < 3)
		return 64;
	object = bpf_object__open(argv[1]);
	if (!object || bpf_object__load(object))
		return 1;
	bpf_object__for_each_program(program, object) {
		bool is_of_cgroup = !strncmp(bpf_program__section_name(program), "cgroup_skb", strlen("cgroup_skb"));

		if (!is_wanted(program, argv + 2))
			continue;
		if (is_of_cgroup ? !bpf_program__attach_cgroup(program, open_cgroups()) : !bpf_program__attach(program))
			return 1;
	}
	puts("attached");
	fflush(stdout);
	getchar();
	return 0;
}
