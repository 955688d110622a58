/* A disk that fails on demand, for a process that is started with LD_PRELOAD.
 *
 * FAULTS       name:call:nth:errno, with commas between; `call` is `sync`, `write` or `short`, a
 *              write that stops half-way until nothing is left to halve. The file of that name
 *              fails from the nth call on.
 * FAULTS_SAFE  a folder that gets a copy of each file whenever it is flushed, until the first
 * fault. What was not flushed by then is not on the disk, whatever can still be read.
 */

#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { FAULTS_MAX = 8, NAME_MAX_BYTES = 64 };

typedef struct fault {
    char name[NAME_MAX_BYTES];
    char call[8];
    int nth;
    int code;
    int count;
} fault_t;

typedef ssize_t (*write_fn)(int, const void *, size_t);
typedef ssize_t (*pwrite_fn)(int, const void *, size_t, off_t);
typedef int (*sync_fn)(int);

static fault_t faults[FAULTS_MAX];
static int fault_count;
static bool failed;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

__attribute__((constructor)) static void read_faults(void)
{
    const char *text = getenv("FAULTS");
    while (text != NULL && *text != '\0' && fault_count < FAULTS_MAX) {
        fault_t *fault = &faults[fault_count];
        if (sscanf(text, "%63[^:]:%7[^:]:%d:%d", fault->name, fault->call, &fault->nth,
                   &fault->code) != 4)
            abort();
        fault_count++;
        text = strchr(text, ',');
        text = text == NULL ? NULL : text + 1;
    }
}

/* The last part of the path of an open file; false for what is no file. */
static bool name_of(int fd, char *path, const char **name)
{
    char link[32];
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t length = readlink(link, path, PATH_MAX - 1);
    if (length <= 0)
        return false;
    path[length] = '\0';
    const char *slash = strrchr(path, '/');
    if (slash == NULL)
        return false;
    *name = slash + 1;
    return true;
}

static int fails(int fd, const char *call)
{
    char path[PATH_MAX];
    const char *name;
    int code = 0;
    if (fault_count == 0 || !name_of(fd, path, &name))
        return 0;
    pthread_mutex_lock(&lock);
    for (int i = 0; i < fault_count; i++) {
        fault_t *fault = &faults[i];
        if (strcmp(fault->name, name) == 0 && strcmp(fault->call, call) == 0 &&
            ++fault->count >= fault->nth)
            code = fault->code;
    }
    failed = failed || code != 0;
    pthread_mutex_unlock(&lock);
    return code;
}

static void copy(int source, int target)
{
    static char buffer[1 << 16];
    write_fn next = (write_fn)dlsym(RTLD_NEXT, "write");
    ssize_t size;
    while ((size = read(source, buffer, sizeof buffer)) > 0) {
        if (next(target, buffer, (size_t)size) != size)
            abort();
    }
}

static void keep(int fd)
{
    char path[PATH_MAX], safe[PATH_MAX + NAME_MAX_BYTES];
    const char *folder = getenv("FAULTS_SAFE"), *name;
    if (folder == NULL || !name_of(fd, path, &name))
        return;
    pthread_mutex_lock(&lock);
    if (!failed && snprintf(safe, sizeof safe, "%s/%s", folder, name) < (int)sizeof safe) {
        int source = open(path, O_RDONLY | O_CLOEXEC); /* ours may be for writing only */
        int target = open(safe, O_CREAT | O_TRUNC | O_WRONLY | O_CLOEXEC, 0600);
        if (source < 0 || target < 0)
            abort();
        copy(source, target);
        close(source);
        close(target);
    }
    pthread_mutex_unlock(&lock);
}

static int flushed(int fd, const char *function)
{
    int code = fails(fd, "sync");
    if (code != 0) {
        errno = code;
        return -1;
    }
    int rc = ((sync_fn)dlsym(RTLD_NEXT, function))(fd);
    if (rc == 0)
        keep(fd);
    return rc;
}

int fsync(int fd)
{
    return flushed(fd, "fsync");
}

int fdatasync(int fd)
{
    return flushed(fd, "fdatasync");
}

/* How much of a write may happen: all, half, or -1 with errno set. */
static ssize_t allowed(int fd, size_t size)
{
    int code = fails(fd, "write");
    int halved = code == 0 ? fails(fd, "short") : 0;
    if (halved != 0 && size > 1)
        return (ssize_t)(size / 2);
    if (code != 0 || halved != 0) {
        errno = code != 0 ? code : halved;
        return -1;
    }
    return (ssize_t)size;
}

ssize_t write(int fd, const void *data, size_t size)
{
    ssize_t room = allowed(fd, size);
    return room < 0 ? room : ((write_fn)dlsym(RTLD_NEXT, "write"))(fd, data, (size_t)room);
}

ssize_t pwrite(int fd, const void *data, size_t size, off_t offset)
{
    ssize_t room = allowed(fd, size);
    return room < 0 ? room
                    : ((pwrite_fn)dlsym(RTLD_NEXT, "pwrite"))(fd, data, (size_t)room, offset);
}

ssize_t pwrite64(int fd, const void *data, size_t size, off_t offset)
{
    return pwrite(fd, data, size, offset);
}
