#pragma once
#include "../../../bpf/include/traffic_abi.h"
