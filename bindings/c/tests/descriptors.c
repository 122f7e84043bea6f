/* Uses connections as descriptors of the system's: with poll(), fcntl(), dup(), fdopen(), getsockopt().
 *
 *     descriptors serve          prints its port and sends back each line in capitals, until there are no more
 *     descriptors connect PORT   sends many lines without waiting, and reads what comes back
 *
 * SPDX-License-Identifier: MIT OR Apache-2.0 */
#include <arpa/inet.h>
#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LONGHAUL_DESCRIPTORS
#include <longhaul_sockets.h>

enum { LINES = 50000 };

static void check(int holds, const char *what) {
    if (!holds) {
        fprintf(stderr, "%s: %s\n", what, lh_strerror(errno));
        exit(1);
    }
}

static int serve(void) {
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof address;
    int listener = socket(AF_INET, SOCK_STREAM, 0);
    check(listener >= 0 && bind(listener, (struct sockaddr *)&address, len) == 0 && listen(listener, 1) == 0, "listen");
    check(getsockname(listener, (struct sockaddr *)&address, &len) == 0, "getsockname");
    printf("%d\n", ntohs(address.sin_port));
    fflush(stdout);
    check(fcntl(listener, F_SETFL, fcntl(listener, F_GETFL) | O_NONBLOCK) == 0, "fcntl");
    struct pollfd one = {.fd = listener, .events = POLLIN};
    int fd = accept(listener, NULL, NULL);
    check(fd >= 0 || errno == EAGAIN, "accept");
    if (fd < 0) {
        check(poll(&one, 1, 60000) == 1, "poll");
        fd = accept(listener, NULL, NULL);
    }
    check(fd >= 0, "accept");
    check(accept(listener, NULL, NULL) < 0 && errno == EAGAIN, "a second accept");
    FILE *in = fdopen(fd, "r"), *out = fdopen(dup(fd), "w");
    check(in && out, "fdopen");
    char line[100];
    while (fgets(line, sizeof line, in)) {
        for (char *at = line; *at; at++) *at = toupper(*at);
        check(fputs(line, out) >= 0, "fputs");
    }
    check(!ferror(in), "fgets");
    /* Neither stream is closed: the end of the process is to send what is left. */
    check(fflush(out) == 0, "fflush");
    return 0;
}

static int talk(int port) {
    struct sockaddr_in address = {
        .sin_family = AF_INET, .sin_port = htons(port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int fd = socket(AF_INET, SOCK_STREAM, 0), kind = 0;
    check(fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_NONBLOCK) == 0, "fcntl");
    check(fd >= 0 && connect(fd, (struct sockaddr *)&address, sizeof address) == 0, "connect");
    socklen_t len = sizeof kind;
    check(getsockopt(fd, SOL_SOCKET, SO_TYPE, &kind, &len) == 0 && kind == SOCK_STREAM, "getsockopt");
    check(fcntl(fd, F_GETFL) & O_NONBLOCK, "it is as it was before");
    char said[100], heard[4096];
    int sent = 0, at = 0, lines = 0, over = 0;
    snprintf(said, sizeof said, "line %d\n", sent);
    while (!over) {
        struct pollfd one = {.fd = fd, .events = POLLIN | (sent < LINES ? POLLOUT : 0)};
        check(poll(&one, 1, 60000) == 1, "poll");
        if (one.revents & POLLOUT && sent < LINES) {
            ssize_t taken = write(fd, said + at, strlen(said) - at);
            check(taken > 0 || errno == EAGAIN, "write");
            at += taken > 0 ? taken : 0;
            if (at == (int)strlen(said)) {
                at = 0;
                snprintf(said, sizeof said, "line %d\n", ++sent);
                if (sent == LINES) check(shutdown(fd, SHUT_WR) == 0, "shutdown");
            }
        }
        if (one.revents & (POLLIN | POLLHUP | POLLERR)) {
            ssize_t got = read(fd, heard, sizeof heard);
            check(got >= 0 || errno == EAGAIN, "read");
            over = got == 0;
            for (ssize_t i = 0; i < got; i++) {
                check(!islower((unsigned char)heard[i]), "capitals");
                lines += heard[i] == '\n';
            }
        }
    }
    printf("%d lines\n", lines);
    return close(fd) == 0 && lines == LINES ? 0 : 1;
}

int main(int argc, char **argv) {
    return argc == 3 ? talk(atoi(argv[2])) : serve();
}
