/* Two network namespaces that the caller has made, with the servers in the second. */
#include "generator.h"

#include <fcntl.h>
#include <sched.h>
#include <sys/stat.h>
#include <unistd.h>

bool can_cross(const struct scenario *scenario)
{
	bool two_sided = scenario->client && (scenario->server || scenario->kernel_answers);

	return two_sided && !scenario->one_namespace;
}

int open_namespace(const char *path)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);

	if (fd < 0)
		fail("open the network namespace %s", path);
	return fd;
}

void enter_namespace(int fd)
{
	if (setns(fd, CLONE_NEWNET))
		fail("enter the network namespace of the servers");
}

uint64_t own_namespace(void)
{
	struct stat status;

	/* Not the namespace of /proc/self: the first thread of the process may have ended. */
	if (stat("/proc/thread-self/ns/net", &status))
		fail("stat /proc/thread-self/ns/net");
	return status.st_ino;
}
