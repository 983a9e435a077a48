/* Loads a BPF object, attaches every program in it and stays until its standard input ends. */
#include <bpf/libbpf.h>
#include <stdio.h>

int main(int argc, char **argv)
{
	struct bpf_object *object;
	struct bpf_program *program;

	if (argc != 2)
		return 64;
	object = bpf_object__open(argv[1]);
	if (!object || bpf_object__load(object))
		return 1;
	bpf_object__for_each_program(program, object) {
		if (!bpf_program__attach(program))
			return 1;
	}
	puts("attached");
	fflush(stdout);
	getchar();
	return 0;
}
