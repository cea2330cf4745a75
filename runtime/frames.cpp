#include "runtime/frames.h"

#include <fmt/format.h>
#include <sys/socket.h>

#include <array>
#include <cerrno>
#include <cstdint>
#include <cstring>

namespace kiln {
namespace {

// A frame that says more was not sent by send_frame().
constexpr std::uint64_t kMostTexts = 1 << 16, kMostBytes = std::uint64_t{1} << 34;

bool send_all(int socket, const void* data, std::size_t size) {
  const char* from = static_cast<const char*>(data);
  while (size > 0) {
    const ssize_t n = ::send(socket, from, size, MSG_NOSIGNAL);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return false;
    from += n;
    size -= static_cast<std::size_t>(n);
  }
  return true;
}

bool receive_all(int socket, void* data, std::size_t size) {
  char* to = static_cast<char*>(data);
  while (size > 0) {
    const ssize_t n = ::recv(socket, to, size, 0);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return false;
    to += n;
    size -= static_cast<std::size_t>(n);
  }
  return true;
}

/// A message of one byte, with room for one descriptor beside it.
struct OneDescriptor {
  OneDescriptor() {
    message.msg_iov = &part;
    message.msg_iovlen = 1;
    message.msg_control = control.data();
    message.msg_controllen = control.size();
  }
  char byte = 0;
  iovec part{&byte, 1};
  alignas(cmsghdr) std::array<char, CMSG_SPACE(sizeof(int))> control{};
  msghdr message{};
};

}  // namespace

Result<SocketPair> socket_pair() {
  int pair[2];
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) != 0)
    return fail(ErrorCode::device, fmt::format("socketpair: {}", std::strerror(errno)));
  return SocketPair{Fd(pair[0]), Fd(pair[1])};
}

bool send_frame(int socket, std::span<const std::string_view> texts) {
  std::vector<std::uint64_t> head{texts.size()};
  for (const std::string_view text : texts) head.push_back(text.size());
  if (!send_all(socket, head.data(), head.size() * sizeof(head[0]))) return false;
  for (const std::string_view text : texts)
    if (!send_all(socket, text.data(), text.size())) return false;
  return true;
}

std::optional<std::vector<std::string>> receive_frame(int socket) {
  std::uint64_t count = 0;
  if (!receive_all(socket, &count, sizeof(count)) || count > kMostTexts) return std::nullopt;
  std::vector<std::uint64_t> sizes(count);
  if (!receive_all(socket, sizes.data(), count * sizeof(sizes[0]))) return std::nullopt;
  std::vector<std::string> texts(count);
  for (std::size_t i = 0; i < count; ++i) {
    if (sizes[i] > kMostBytes) return std::nullopt;
    texts[i].resize(sizes[i]);
    if (!receive_all(socket, texts[i].data(), sizes[i])) return std::nullopt;
  }
  return texts;
}

bool send_descriptor(int socket, int descriptor) {
  OneDescriptor one;
  cmsghdr* const beside = CMSG_FIRSTHDR(&one.message);
  beside->cmsg_level = SOL_SOCKET;
  beside->cmsg_type = SCM_RIGHTS;
  beside->cmsg_len = CMSG_LEN(sizeof(int));
  std::memcpy(CMSG_DATA(beside), &descriptor, sizeof(int));
  ssize_t sent = 0;
  do sent = ::sendmsg(socket, &one.message, MSG_NOSIGNAL);
  while (sent < 0 && errno == EINTR);
  return sent == 1;
}

std::optional<Fd> receive_descriptor(int socket) {
  OneDescriptor one;
  ssize_t received = 0;
  do received = ::recvmsg(socket, &one.message, MSG_CMSG_CLOEXEC);
  while (received < 0 && errno == EINTR);
  const cmsghdr* const beside = CMSG_FIRSTHDR(&one.message);
  if (received != 1 || beside == nullptr || beside->cmsg_type != SCM_RIGHTS) return std::nullopt;
  int descriptor = -1;
  std::memcpy(&descriptor, CMSG_DATA(beside), sizeof(int));
  return Fd(descriptor);
}

}  // namespace kiln
