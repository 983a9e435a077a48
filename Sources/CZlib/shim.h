#pragma once

#include <zlib.h>

// A macro, which Swift does not see. `window` 31 is the largest window, in the format of gzip (RFC 1952).
static inline int deflate_begin_gzip(z_stream *stream, int level) {
    return deflateInit2(stream, level, Z_DEFLATED, 31, 8, Z_DEFAULT_STRATEGY);
}
