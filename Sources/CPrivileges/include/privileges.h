/*
 * Rights of the whole process (capabilities(7)).
 *
 * The kernel keeps capabilities for each thread, and only the thread itself can change them. So a signal asks every
 * thread to do so, as the C library does for setuid(2).
 */
#pragma once

#include <stdint.h>

/*
 * Every thread keeps only its capabilities that are in `keep`, one bit for each, and can never gain any by execve(2)
 * (PR_SET_NO_NEW_PRIVS). Returns 0, or -1 with `errno`: ETIMEDOUT if a thread did not answer within a second. Two
 * threads must not call this at the same time.
 */
int privileges_keep(uint64_t keep);
