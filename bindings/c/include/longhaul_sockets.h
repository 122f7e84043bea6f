/* Lets a program that was written for sockets run over striped streams: include this instead of <sys/socket.h>, after
 * all other headers, and link with -llonghaul. The calls below then mean longhaul's, which do with descriptors that are
 * not longhaul's (files, UDP and Unix sockets) what the system's do.
 *
 *     LONGHAUL_READ_WRITE   define it before to have read() and write() mean longhaul's too
 *     LONGHAUL_KEEP_CLOSE   define it before to leave close() alone; handles are then closed with lh_close()
 *     LONGHAUL_DESCRIPTORS  define it before to have each connection be a descriptor of the system's (lh_descriptor()),
 *                           with which poll(), fcntl(), fdopen() and all the others work
 *
 * In C++, functions of the same names that are members of something (file.close(), std::bind()) cannot be called in
 * the same file: keep the socket calls in a file of their own, or call the lh_ functions.
 *
 * Without LONGHAUL_DESCRIPTORS what is not named below knows nothing of handles: poll(), select(), epoll, fcntl(), ioctl() and getsockopt(); accept4(),
 * sendto(), recvfrom(), sendmsg() and recvmsg(); readv(), writev() and sendfile(); dup() and fdopen(). A program that uses
 * them on its connections must be changed there: accept() for accept4(), send() of each piece for writev() and sendmsg().
 *
 * SPDX-License-Identifier: MIT OR Apache-2.0 */
#ifndef LONGHAUL_SOCKETS_H
#define LONGHAUL_SOCKETS_H

#include <errno.h>
#include <sys/socket.h>
#include <unistd.h>

#include <longhaul.h>

#define socket(domain, type, protocol) lh_socket(domain, type, protocol)
#define bind(fd, address, len) lh_bind(fd, address, len)
#define listen(fd, backlog) lh_listen(fd, backlog)
#ifdef LONGHAUL_DESCRIPTORS
static inline int lh_accept_descriptor(int fd, struct sockaddr *address, socklen_t *len) {
    int accepted = lh_accept(fd, address, len), error;
    if (accepted < 0 || lh_descriptor(accepted) >= 0) return accepted;
    error = errno;
    lh_close(accepted);
    errno = error;
    return -1;
}
static inline int lh_connect_descriptor(int fd, const struct sockaddr *address, socklen_t len) {
    int connected = lh_connect(fd, address, len);
    return connected < 0 || lh_descriptor(fd) < 0 ? -1 : connected;
}
#define accept(fd, address, len) lh_accept_descriptor(fd, address, len)
#define connect(fd, address, len) lh_connect_descriptor(fd, address, len)
#else
#define accept(fd, address, len) lh_accept(fd, address, len)
#define connect(fd, address, len) lh_connect(fd, address, len)
#endif
#define send(fd, data, len, flags) lh_send(fd, data, len, flags)
#define recv(fd, data, len, flags) lh_recv(fd, data, len, flags)
#define shutdown(fd, how) lh_shutdown(fd, how)
#define getsockname(fd, address, len) lh_getsockname(fd, address, len)
#define getpeername(fd, address, len) lh_getpeername(fd, address, len)
#define setsockopt(fd, level, name, value, len) lh_setsockopt(fd, level, name, value, len)
#ifndef LONGHAUL_KEEP_CLOSE
#define close(fd) lh_close(fd)
#endif
#ifdef LONGHAUL_READ_WRITE
#define read(fd, data, len) lh_read(fd, data, len)
#define write(fd, data, len) lh_write(fd, data, len)
#endif

#endif
