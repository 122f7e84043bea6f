// Sends back what comes, each connection in a thread of its own; or sends its standard input there and writes what comes
// back to standard output:
//
//     far$ echo serve 7702
//     near$ echo ask far.example.org 7702 < question
//
// `serve 0` takes a free port; the port is printed in any case.
#include <netdb.h>
#include <netinet/in.h>

#include <cerrno>
#include <cstring>
#include <iostream>
#include <string>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include <unistd.h>
#include <sys/socket.h>

// A socket that is closed when it goes.
class Socket {
public:
    explicit Socket(int fd) : fd(fd) { check(fd, "no socket"); }
    Socket(Socket &&other) noexcept : fd(std::exchange(other.fd, -1)) {}
    Socket(const Socket &) = delete;
    ~Socket() {
        if (fd >= 0)
            close(fd);
    }

    static Socket dial(const std::string &host, const std::string &port) {
        addrinfo hints{}, *found;
        hints.ai_socktype = SOCK_STREAM;
        if (int failed = getaddrinfo(host.c_str(), port.c_str(), &hints, &found))
            throw std::runtime_error(host + ": " + gai_strerror(failed));
        Socket socket_there(socket(found->ai_family, SOCK_STREAM, 0));
        int connected = connect(socket_there.fd, found->ai_addr, found->ai_addrlen);
        freeaddrinfo(found);
        check(connected, host);
        return socket_there;
    }

    static Socket listening(int port) {
        sockaddr_in address{};
        address.sin_family = AF_INET;
        address.sin_port = htons(port);
        Socket door(socket(AF_INET, SOCK_STREAM, 0));
        check(bind(door.fd, reinterpret_cast<sockaddr *>(&address), sizeof address), "cannot bind");
        check(listen(door.fd, 16), "cannot listen");
        return door;
    }

    int port() const {
        sockaddr_in address{};
        socklen_t len = sizeof address;
        check(getsockname(fd, reinterpret_cast<sockaddr *>(&address), &len), "no address");
        return ntohs(address.sin_port);
    }

    Socket next() const { return Socket(accept(fd, nullptr, nullptr)); }

    void send_all(const char *data, size_t len) const {
        while (len > 0) {
            ssize_t taken = send(fd, data, len, MSG_NOSIGNAL);
            check(taken, "cannot send");
            data += taken;
            len -= taken;
        }
    }

    size_t receive(std::vector<char> &room) const {
        ssize_t len = recv(fd, room.data(), room.size(), 0);
        check(len, "cannot receive");
        return len;
    }

    void end() const { check(shutdown(fd, SHUT_WR), "cannot shut down"); }

private:
    static void check(ssize_t result, const std::string &what) {
        if (result < 0)
            throw std::system_error(errno, std::generic_category(), what);
    }

    int fd;
};

static void echo(Socket guest) try {
    std::vector<char> room(1 << 16);
    while (size_t len = guest.receive(room))
        guest.send_all(room.data(), len);
    guest.end();
} catch (const std::exception &error) {
    std::cerr << "echo: " << error.what() << '\n';
}

static void serve(int port) {
    Socket door = Socket::listening(port);
    std::cout << door.port() << std::endl;
    for (;;)
        std::thread(echo, door.next()).detach();
}

static void ask(const std::string &host, const std::string &port) {
    Socket there = Socket::dial(host, port);
    std::thread sending([&there] {
        std::vector<char> room(1 << 16);
        while (std::cin.read(room.data(), room.size()), std::cin.gcount() > 0)
            there.send_all(room.data(), std::cin.gcount());
        there.end();
    });
    std::vector<char> room(1 << 16);
    while (size_t len = there.receive(room))
        std::cout.write(room.data(), len);
    sending.join();
}

int main(int argc, char **argv) try {
    std::vector<std::string> args(argv + 1, argv + argc);
    if (args.size() == 2 && args[0] == "serve")
        serve(std::stoi(args[1]));
    else if (args.size() == 3 && args[0] == "ask")
        ask(args[1], args[2]);
    else
        throw std::runtime_error("usage: echo serve PORT | echo ask HOST PORT");
    return std::cout.flush() ? 0 : 1;
} catch (const std::exception &error) {
    std::cerr << "echo: " << error.what() << '\n';
    return 1;
}
