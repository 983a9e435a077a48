/*
 * Records what a program writes to a SQLite database, for a test that cuts the power after each write. Preloaded
 * (ld.so(8), LD_PRELOAD); the environment's WRITES_OF names the database, and WRITES_TO the record.
 *
 * A record is a line `KIND FILE OFFSET LENGTH`, and after `write` LENGTH bytes and a line feed. FILE is 0 for the database
 * and 1 for its write-ahead log. KIND is write, sync, cut (to the length OFFSET) or remove. The file with the shared memory
 * is left out: it does not outlive the power.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>
#include <unistd.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static FILE *record;

static int file_of_path(const char *path)
{
	const char *database = getenv("WRITES_OF");
	size_t length = database ? strlen(database) : 0;

	if (!length || strncmp(path, database, length))
		return -1;
	if (!path[length])
		return 0;
	return strcmp(path + length, "-wal") ? -1 : 1;
}

static int file_of(int descriptor)
{
	char link[64], path[4096];
	ssize_t length;

	snprintf(link, sizeof(link), "/proc/self/fd/%d", descriptor);
	length = readlink(link, path, sizeof(path) - 1);
	if (length < 0)
		return -1;
	path[length] = 0;
	return file_of_path(path);
}

static void note(const char *kind, int file, int64_t offset, const void *bytes, size_t length)
{
	if (file < 0)
		return;
	pthread_mutex_lock(&lock);
	if (!record)
		record = fopen(getenv("WRITES_TO"), "a");
	if (record) {
		fprintf(record, "%s %d %lld %zu\n", kind, file, (long long)offset, length);
		if (bytes) {
			fwrite(bytes, 1, length, record);
			fputc('\n', record);
		}
		fflush(record);
	}
	pthread_mutex_unlock(&lock);
}

/* `real` is the C library's function. What it refused is not recorded. */
#define REAL(function)                                                                                                 \
	static typeof(function) *real;                                                                                 \
	if (!real)                                                                                                     \
	real = dlsym(RTLD_NEXT, #function)

ssize_t pwrite64(int descriptor, const void *bytes, size_t length, off64_t offset)
{
	REAL(pwrite64);
	ssize_t done = real(descriptor, bytes, length, offset);

	if (done > 0)
		note("write", file_of(descriptor), offset, bytes, done);
	return done;
}

ssize_t pwrite(int descriptor, const void *bytes, size_t length, off_t offset)
{
	return pwrite64(descriptor, bytes, length, offset);
}

int ftruncate64(int descriptor, off64_t length)
{
	REAL(ftruncate64);
	int result = real(descriptor, length);

	if (!result)
		note("cut", file_of(descriptor), length, NULL, 0);
	return result;
}

int ftruncate(int descriptor, off_t length)
{
	return ftruncate64(descriptor, length);
}

int fsync(int descriptor)
{
	REAL(fsync);
	int result = real(descriptor);

	if (!result)
		note("sync", file_of(descriptor), 0, NULL, 0);
	return result;
}

int fdatasync(int descriptor)
{
	REAL(fdatasync);
	int result = real(descriptor);

	if (!result)
		note("sync", file_of(descriptor), 0, NULL, 0);
	return result;
}

int unlink(const char *path)
{
	REAL(unlink);
	int file = file_of_path(path);
	int result = real(path);

	if (!result)
		note("remove", file, 0, NULL, 0);
	return result;
}
