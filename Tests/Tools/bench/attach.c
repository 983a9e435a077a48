/* Loads a BPF object, attaches the programs whose names begin with PREFIX and stays until its standard input ends. */
#include <bpf/libbpf.h>
#include <stdio.h>
#include <string.h>

int main(int argc, char **argv)
{
	struct bpf_object *object;
	struct bpf_program *program;

	if (argc != 3)
		return 64;
	object = bpf_object__open(argv[1]);
	if (!object || bpf_object__load(object))
		return 1;
	bpf_object__for_each_program(program, object) {
		if (strncmp(bpf_program__name(program), argv[2], strlen(argv[2])))
			continue;
		if (!bpf_program__attach(program))
			return 1;
	}
	puts("attached");
	fflush(stdout);
	getchar();
	return 0;
}
