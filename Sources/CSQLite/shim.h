#pragma once
#include <sqlite3.h>

// SQLITE_TRANSIENT is a cast of -1 to a function pointer, which Swift can't express.
static inline int sqlite_bind_copy(sqlite3_stmt *statement, int index, const char *text, int length)
{
	return sqlite3_bind_text(statement, index, text, length, SQLITE_TRANSIENT);
}

static inline int sqlite_bind_bytes_copy(sqlite3_stmt *statement, int index, const void *bytes, int length)
{
	return sqlite3_bind_blob(statement, index, bytes, length, SQLITE_TRANSIENT);
}
