#pragma once
#include <bpf/bpf.h>
#include <bpf/btf.h>
#include <bpf/libbpf.h>
