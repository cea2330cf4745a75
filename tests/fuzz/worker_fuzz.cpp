// Messages from a worker process: any bytes give a message or an error that says something; what is
// read of a message survives being written and read again.
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdlib>

#include "tuner/worker/protocol.h"

namespace {

using namespace kiln;

void demand(bool held) {
  if (!held) std::abort();
}

template <typename T>
bool refused(const Result<T>& result) {
  if (!result) demand(!result.error().message.empty());
  return !result.has_value();
}

void read_caps(const nlohmann::json& body) {
  const auto caps = caps_from(body);
  if (refused(caps)) return;
  const auto again = caps_from(to_json(*caps));
  demand(again && *again == *caps);
}

void read_outcome(const nlohmann::json& body) {
  const auto outcome = outcome_from(body);
  if (refused(outcome)) return;
  const auto again = outcome_from(to_json(*outcome));
  demand(again && again->index() == outcome->index());
}

void read_row(const nlohmann::json& body) {
  const auto row = measured_from(body);
  if (refused(row)) return;
  if (row->ok()) demand(row->timing().median_ns > 0);
  const auto again = measured_from(answer_of(row->outcome, row->round, row->verified));
  demand(again && again->round == row->round && again->verified == row->verified);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  constexpr std::size_t kLongest = 100 << 10;  // a socket buffer takes about 200 KB
  std::array<int, 2> pair{};
  demand(::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair.data()) == 0);
  const Fd theirs(pair[0]), ours(pair[1]);
  (void)!::send(theirs.get(), data, std::min(size, kLongest), MSG_NOSIGNAL);
  const auto message = receive_message(ours.get());
  if (refused(message)) return 0;
  read_caps(message->body);
  read_outcome(message->body);
  read_row(message->body);
  demand(send_message(theirs.get(), message->body).has_value() ||
         message->body.dump().size() > size);
  return 0;
}
