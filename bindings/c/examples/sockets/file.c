/* Sends a file to another host, where the same program writes it to another file:
 *
 *     far$ file receive 7701 copy.tar
 *     near$ file send far.example.org 7701 big.tar
 *
 * `receive 0` takes a free port; the port is printed in any case. */
#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <sys/socket.h>

static char buffer[1 << 20];

static void die(const char *what) {
    fprintf(stderr, "file: %s: %s\n", what, strerror(errno));
    exit(1);
}

/* Connect to a host by name. */
static int dial(const char *host, const char *port) {
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM}, *found;
    int failed = getaddrinfo(host, port, &hints, &found);
    if (failed) {
        fprintf(stderr, "file: %s: %s\n", host, gai_strerror(failed));
        exit(1);
    }
    int fd = socket(found->ai_family, SOCK_STREAM, 0);
    if (fd < 0 || connect(fd, found->ai_addr, found->ai_addrlen) < 0)
        die(host);
    freeaddrinfo(found);
    return fd;
}

/* Wait for somebody to connect. */
static int meet(const char *port) {
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons(atoi(port))};
    socklen_t len = sizeof address;
    int on = 1, door = socket(AF_INET, SOCK_STREAM, 0);
    if (door < 0 || setsockopt(door, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on) < 0 ||
        bind(door, (struct sockaddr *)&address, sizeof address) < 0 || listen(door, 1) < 0 ||
        getsockname(door, (struct sockaddr *)&address, &len) < 0)
        die("cannot listen");
    printf("%d\n", ntohs(address.sin_port));
    fflush(stdout);
    int fd = accept(door, NULL, NULL);
    if (fd < 0)
        die("cannot accept");
    close(door);
    return fd;
}

static void send_file(int fd, int file) {
    ssize_t len;
    while ((len = read(file, buffer, sizeof buffer)) > 0)
        for (ssize_t at = 0, taken; at < len; at += taken)
            if ((taken = send(fd, buffer + at, len - at, MSG_NOSIGNAL)) < 0)
                die("cannot send");
    if (len < 0)
        die("cannot read the file");
}

static void receive_file(int fd, int file) {
    ssize_t len;
    while ((len = recv(fd, buffer, sizeof buffer, 0)) > 0)
        if (write(file, buffer, len) != len)
            die("cannot write the file");
    if (len < 0)
        die("cannot receive");
}

int main(int argc, char **argv) {
    int sends = argc == 5 && strcmp(argv[1], "send") == 0;
    if (!sends && !(argc == 4 && strcmp(argv[1], "receive") == 0)) {
        fprintf(stderr, "usage: file send HOST PORT FILE | file receive PORT FILE\n");
        return 2;
    }
    int file = sends ? open(argv[4], O_RDONLY) : open(argv[3], O_WRONLY | O_CREAT | O_TRUNC, 0666);
    if (file < 0)
        die(argv[argc - 1]);
    int fd = sends ? dial(argv[2], argv[3]) : meet(argv[2]);
    if (sends)
        send_file(fd, file);
    else
        receive_file(fd, file);
    if (close(fd) < 0)
        die("not all of it arrived");
    return close(file) < 0;
}
