/* The sockmap's programs: a few instructions each, loaded by bpf(2) alone, so that a static build needs nothing. */
#include "sockmap_programs.h"
#include "generator.h"

#include <errno.h>
#include <linux/bpf.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

static int bpf(enum bpf_cmd command, union bpf_attr *attributes)
{
	int result = syscall(SYS_bpf, command, attributes, sizeof(*attributes));

	if (result < 0)
		skip("sockmap: bpf command %d: %s", command, strerror(errno));
	return result;
}

int make_sockmap(void)
{
	union bpf_attr attributes = { .map_type = BPF_MAP_TYPE_SOCKMAP, .key_size = 4, .value_size = 4, .max_entries = 1 };
	struct rlimit unlimited = { RLIM_INFINITY, RLIM_INFINITY };

	/*
	 * Before Linux 5.11 all BPF maps of a user, the daemon's too, counted as that user's locked memory. Where the
	 * limit may not be raised, making the map shows whether that matters.
	 */
	(void)setrlimit(RLIMIT_MEMLOCK, &unlimited);
	return bpf(BPF_MAP_CREATE, &attributes);
}

static void load_and_attach(int map, enum bpf_prog_type type, enum bpf_attach_type place, const struct bpf_insn *instructions,
			    uint32_t count)
{
	union bpf_attr load = { .prog_type = type, .insns = (uintptr_t)instructions, .insn_cnt = count,
				.license = (uintptr_t) "Dual BSD/GPL", .expected_attach_type = place };
	union bpf_attr attach = { .target_fd = map, .attach_type = place };

	attach.attach_bpf_fd = bpf(BPF_PROG_LOAD, &load);
	bpf(BPF_PROG_ATTACH, &attach);
	close(attach.attach_bpf_fd);
}

/* `return redirect(context, target, 0, flags)` */
static void redirect(int map, int target, enum bpf_prog_type type, enum bpf_attach_type place, int helper, int flags)
{
	const struct bpf_insn instructions[] = {
		{ .code = BPF_LD | BPF_DW | BPF_IMM, .dst_reg = BPF_REG_2, .src_reg = BPF_PSEUDO_MAP_FD, .imm = target },
		{ 0 },
		{ .code = BPF_ALU64 | BPF_MOV | BPF_K, .dst_reg = BPF_REG_3, .imm = 0 },
		{ .code = BPF_ALU64 | BPF_MOV | BPF_K, .dst_reg = BPF_REG_4, .imm = flags },
		{ .code = BPF_JMP | BPF_CALL, .imm = helper },
		{ .code = BPF_JMP | BPF_EXIT },
	};

	load_and_attach(map, type, place, instructions, COUNT_OF(instructions));
}

void redirect_received(int map, int target)
{
	redirect(map, target, BPF_PROG_TYPE_SK_SKB, BPF_SK_SKB_STREAM_VERDICT, BPF_FUNC_sk_redirect_map, 0);
}

void redirect_sent(int map, int target)
{
	redirect(map, target, BPF_PROG_TYPE_SK_MSG, BPF_SK_MSG_VERDICT, BPF_FUNC_msg_redirect_map, BPF_F_INGRESS);
}

/* `return SK_PASS` */
void pass_received(int map)
{
	const struct bpf_insn instructions[] = {
		{ .code = BPF_ALU64 | BPF_MOV | BPF_K, .dst_reg = BPF_REG_0, .imm = SK_PASS },
		{ .code = BPF_JMP | BPF_EXIT },
	};

	load_and_attach(map, BPF_PROG_TYPE_SK_SKB, BPF_SK_SKB_STREAM_VERDICT, instructions, COUNT_OF(instructions));
}

/* `return skb->len` */
void parse_received(int map)
{
	const struct bpf_insn instructions[] = {
		{ .code = BPF_LDX | BPF_MEM | BPF_W, .dst_reg = BPF_REG_0, .src_reg = BPF_REG_1,
		  .off = offsetof(struct __sk_buff, len) },
		{ .code = BPF_JMP | BPF_EXIT },
	};

	load_and_attach(map, BPF_PROG_TYPE_SK_SKB, BPF_SK_SKB_STREAM_PARSER, instructions, COUNT_OF(instructions));
}

void put_socket(int map, int fd)
{
	uint32_t key = 0, value = fd;
	union bpf_attr attributes = { .map_fd = map, .key = (uintptr_t)&key, .value = (uintptr_t)&value };

	bpf(BPF_MAP_UPDATE_ELEM, &attributes);
}

void take_socket_out(int map)
{
	uint32_t key = 0;
	union bpf_attr attributes = { .map_fd = map, .key = (uintptr_t)&key };

	bpf(BPF_MAP_DELETE_ELEM, &attributes);
}
