/* Sends to a local port until that fails, and tells why. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include <longhaul.h>

int main(int argc, char **argv) {
    static char data[1 << 20];
    struct lh_options *options = lh_options_new();
    if (argc != 2 || lh_options_patience_ms(options, 300) < 0)
        return 2;
    int fd = lh_dial("127.0.0.1", (uint16_t)atoi(argv[1]), options);
    lh_options_free(options);
    if (fd < 0 || lh_send(fd, data, sizeof data, 0) < 0)
        return 1;
    puts("sending");
    fflush(stdout);
    while (lh_send(fd, data, sizeof data, 0) > 0)
        ;
    puts(lh_strerror(errno));
    lh_close(fd);
    return 0;
}
