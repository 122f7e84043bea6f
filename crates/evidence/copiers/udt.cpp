// A file over UDT, at one end or the other: udt send|receive FILE ADDRESS PORT.
// Written for UDT 4 (libudt); the lab compiles it where that is installed.

#include <arpa/inet.h>
#include <udt/udt.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <string>

namespace {

// Room for more than two bandwidth-delay products of every path of the lab, as UDT's manual advises for fast long ones.
const int kBufferBytes = 64 << 20;
const int kUdpBufferBytes = 4 << 20;
const int kWindowPackets = 65536;
const int kBlockBytes = 1 << 20;

[[noreturn]] void fail(const char* what) {
    std::fprintf(stderr, "%s: %s\n", what, UDT::getlasterror().getErrorMessage());
    std::exit(1);
}

UDTSOCKET open_socket() {
    UDTSOCKET socket = UDT::socket(AF_INET, SOCK_STREAM, 0);
    if (socket == UDT::INVALID_SOCK) fail("socket");
    // The window first: buffers may not be larger than it.
    UDT::setsockopt(socket, 0, UDT_FC, &kWindowPackets, sizeof kWindowPackets);
    UDT::setsockopt(socket, 0, UDT_SNDBUF, &kBufferBytes, sizeof kBufferBytes);
    UDT::setsockopt(socket, 0, UDT_RCVBUF, &kBufferBytes, sizeof kBufferBytes);
    UDT::setsockopt(socket, 0, UDP_SNDBUF, &kUdpBufferBytes, sizeof kUdpBufferBytes);
    UDT::setsockopt(socket, 0, UDP_RCVBUF, &kUdpBufferBytes, sizeof kUdpBufferBytes);
    return socket;
}

sockaddr_in parse_address(const char* address, const char* port) {
    sockaddr_in parsed{};
    parsed.sin_family = AF_INET;
    parsed.sin_port = htons(static_cast<uint16_t>(std::atoi(port)));
    if (inet_pton(AF_INET, address, &parsed.sin_addr) != 1) {
        std::fprintf(stderr, "%s is no address\n", address);
        std::exit(1);
    }
    return parsed;
}

void send_all(UDTSOCKET socket, const void* data, int len) {
    for (int done = 0; done < len;) {
        int sent = UDT::send(socket, static_cast<const char*>(data) + done, len - done, 0);
        if (sent == UDT::ERROR) fail("send");
        done += sent;
    }
}

void receive_all(UDTSOCKET socket, void* data, int len) {
    for (int done = 0; done < len;) {
        int received = UDT::recv(socket, static_cast<char*>(data) + done, len - done, 0);
        if (received == UDT::ERROR) fail("receive");
        done += received;
    }
}

void send_file(const char* path, const sockaddr_in& address) {
    std::fstream file(path, std::ios::in | std::ios::binary);
    file.seekg(0, std::ios::end);
    int64_t len = file.tellg();
    if (!file || len < 0) {
        std::fprintf(stderr, "%s cannot be read\n", path);
        std::exit(1);
    }
    UDTSOCKET socket = open_socket();
    if (UDT::connect(socket, reinterpret_cast<const sockaddr*>(&address), sizeof address) == UDT::ERROR)
        fail("connect");
    send_all(socket, &len, sizeof len);
    int64_t start = 0;
    if (len > 0 && UDT::sendfile(socket, file, start, len, kBlockBytes) == UDT::ERROR) fail("send");
    char done = 0;
    receive_all(socket, &done, 1);
    UDT::close(socket);
}

void receive_file(const std::string& path, const sockaddr_in& address) {
    UDTSOCKET listener = open_socket();
    if (UDT::bind(listener, reinterpret_cast<const sockaddr*>(&address), sizeof address) == UDT::ERROR)
        fail("bind");
    if (UDT::listen(listener, 1) == UDT::ERROR) fail("listen");
    UDTSOCKET socket = UDT::accept(listener, nullptr, nullptr);
    if (socket == UDT::INVALID_SOCK) fail("accept");
    int64_t len = 0, start = 0;
    receive_all(socket, &len, sizeof len);
    std::fstream file(path, std::ios::out | std::ios::binary | std::ios::trunc);
    if (len > 0 && UDT::recvfile(socket, file, start, len, kBlockBytes) == UDT::ERROR) fail("receive");
    file.close();
    char done = 1;
    send_all(socket, &done, 1);
    // The sender closes when it has the byte.
    UDT::recv(socket, &done, 1, 0);
}

}  // namespace

int main(int argc, char** argv) {
    if (argc != 5) {
        std::fprintf(stderr, "usage: udt send|receive FILE ADDRESS PORT\n");
        return 2;
    }
    UDT::startup();
    sockaddr_in address = parse_address(argv[3], argv[4]);
    if (std::strcmp(argv[1], "send") == 0) {
        send_file(argv[2], address);
    } else {
        receive_file(argv[2], address);
    }
    UDT::cleanup();
    return 0;
}
