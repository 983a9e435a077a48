/*
 * Walks over the storages of a running daemon's sockets with a program of a BPF object, as the daemon's sweep does, and
 * prints how many milliseconds each walk took.
 *
 * usage: walk OBJECT PROGRAM TIMES
 */
#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

/* The map that the daemon named `sockets`, or -1. The reference programs have a map of that name and another size. */
static int sockets_map(unsigned int least_value)
{
	unsigned int id = 0;

	while (!bpf_map_get_next_id(id, &id)) {
		struct bpf_map_info info = { 0 };
		unsigned int length = sizeof(info);
		int fd = bpf_map_get_fd_by_id(id);

		if (fd < 0)
			continue;
		if (!bpf_obj_get_info_by_fd(fd, &info, &length) && info.type == BPF_MAP_TYPE_SK_STORAGE &&
		    !strcmp(info.name, "sockets") && info.value_size >= least_value)
			return fd;
		close(fd);
	}
	return -1;
}

int main(int argc, char **argv)
{
	union bpf_iter_link_info info = { 0 };
	LIBBPF_OPTS(bpf_iter_attach_opts, options, .link_info = &info, .link_info_len = sizeof(info));
	struct bpf_object *object;
	struct bpf_link *link;
	char buffer[4096];

	if (argc != 4)
		return 64;
	info.map.map_fd = sockets_map(512);
	object = bpf_object__open(argv[1]);
	if ((int)info.map.map_fd < 0 || !object || bpf_object__load(object))
		return 1;
	link = bpf_program__attach_iter(bpf_object__find_program_by_name(object, argv[2]), &options);
	if (!link)
		return 1;
	for (int pass = atoi(argv[3]); pass > 0; pass--) {
		struct timespec start, end;
		int fd = bpf_iter_create(bpf_link__fd(link));

		clock_gettime(CLOCK_THREAD_CPUTIME_ID, &start);
		while (read(fd, buffer, sizeof(buffer)) > 0)
			;
		clock_gettime(CLOCK_THREAD_CPUTIME_ID, &end);
		close(fd);
		printf("%.3f\n", (end.tv_sec - start.tv_sec) * 1e3 + (end.tv_nsec - start.tv_nsec) / 1e6);
		sleep(1); /* as between two sweeps: other work uses the caches meanwhile */
	}
	return 0;
}
