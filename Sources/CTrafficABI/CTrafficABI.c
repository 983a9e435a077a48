#include "CTrafficABI.h"
