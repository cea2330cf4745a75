#include "tuner/worker/protocol.h"

#include <errno.h>
#include <fmt/format.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <stdexcept>
#include <string>

#include "generator/space/platform.h"

namespace kiln {
namespace {

// A socket buffer takes ~200 KB; the longest message, a race's rows, stays far below.
constexpr std::size_t kMaxMessage = 64 << 10;
constexpr std::size_t kMaxFiles = 32;

tl::unexpected<Error> system_failure(const char* call) {
  return fail(ErrorCode::device, fmt::format("{}: {}", call, strerror(errno)));
}

/// Text that a candidate's code may have written and a terminal will show.
std::string printable(const nlohmann::json& told) {
  std::string text = told.get<std::string>();
  std::replace_if(
      text.begin(), text.end(), [](unsigned char c) { return c < ' ' || c == 0x7f; }, ' ');
  return text;
}

/// Runs `decode`, turning the JSON library's exceptions into values.
template <typename F>
auto decoded(F decode) -> Result<decltype(decode())> {
  try {
    return decode();
  } catch (const std::exception& e) {
    return fail(ErrorCode::device, fmt::format("worker message: {}", e.what()));
  }
}

}  // namespace

nlohmann::json refused(const Error& error) { return {{"error", error.message}}; }

std::string_view name(WorkerStatus::Phase phase) {
  switch (phase) {
    case WorkerStatus::idle:
      return "between candidates";
    case WorkerStatus::preparing:
      return "while the problem was prepared";
    case WorkerStatus::loading:
      return "while being loaded";
    case WorkerStatus::verifying:
      return "while being verified";
    case WorkerStatus::timing:
      return "while being timed";
    case WorkerStatus::racing:
      return "while being raced";
  }
  return "between candidates";
}

Status send_message(int socket, const nlohmann::json& body, std::span<const int> files) {
  std::string text = body.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
  if (text.size() > kMaxMessage || files.size() > kMaxFiles)
    return fail(ErrorCode::internal,
                fmt::format("worker message of {} bytes and {} files", text.size(), files.size()));
  iovec part{text.data(), text.size()};
  msghdr header{};
  header.msg_iov = &part;
  header.msg_iovlen = 1;
  alignas(cmsghdr) std::array<char, CMSG_SPACE(sizeof(int) * kMaxFiles)> control{};
  if (!files.empty()) {
    header.msg_control = control.data();
    header.msg_controllen = CMSG_SPACE(files.size_bytes());
    cmsghdr* c = CMSG_FIRSTHDR(&header);
    c->cmsg_level = SOL_SOCKET;
    c->cmsg_type = SCM_RIGHTS;
    c->cmsg_len = CMSG_LEN(files.size_bytes());
    memcpy(CMSG_DATA(c), files.data(), files.size_bytes());
  }
  while (sendmsg(socket, &header, MSG_NOSIGNAL) < 0)
    if (errno != EINTR) return system_failure("sendmsg to the worker");
  return {};
}

Result<Message> receive_message(int socket) {
  std::string text(kMaxMessage, '\0');
  iovec part{text.data(), text.size()};
  alignas(cmsghdr) std::array<char, CMSG_SPACE(sizeof(int) * kMaxFiles)> control{};
  msghdr header{};
  header.msg_iov = &part;
  header.msg_iovlen = 1;
  header.msg_control = control.data();
  header.msg_controllen = control.size();
  ssize_t n = 0;
  while ((n = recvmsg(socket, &header, MSG_CMSG_CLOEXEC)) < 0)
    if (errno != EINTR) return system_failure("recvmsg from the worker");
  Message message;
  for (cmsghdr* c = CMSG_FIRSTHDR(&header); c; c = CMSG_NXTHDR(&header, c)) {
    if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS) continue;
    const std::size_t count = (c->cmsg_len - CMSG_LEN(0)) / sizeof(int);
    for (std::size_t i = 0; i < count; ++i) {
      int fd = -1;
      memcpy(&fd, CMSG_DATA(c) + i * sizeof(int), sizeof fd);
      message.files.emplace_back(fd);
    }
  }
  if (n == 0) return fail(ErrorCode::device, "the worker's socket was closed");
  if (header.msg_flags & (MSG_TRUNC | MSG_CTRUNC))
    return fail(ErrorCode::device, "worker message: truncated");
  text.resize(static_cast<std::size_t>(n));
  auto body = decoded([&] { return nlohmann::json::parse(text); });
  if (!body) return tl::unexpected(body.error());
  if (!body->is_object()) return fail(ErrorCode::device, "worker message: not an object");
  message.body = std::move(*body);
  return message;
}

// By position: the descriptor shares its offset with the sender's.
Result<std::vector<std::byte>> read_file(int fd) {
  const off_t size = lseek(fd, 0, SEEK_END);
  if (size < 0) return system_failure("lseek in a memory file");
  std::vector<std::byte> bytes(static_cast<std::size_t>(size));
  for (std::size_t done = 0; done < bytes.size();) {
    const ssize_t n = pread(fd, bytes.data() + done, bytes.size() - done, off_t(done));
    if (n == 0) return fail(ErrorCode::device, "a memory file ended early");
    if (n < 0 && errno != EINTR) return system_failure("read of a memory file");
    if (n > 0) done += static_cast<std::size_t>(n);
  }
  return bytes;
}

namespace {

nlohmann::json to_json(const GpuFeatures& g) {
  return {{"sm", g.sm},
          {"arch_specific", g.arch_specific},
          {"wave", g.wave},
          {"shared_block_bytes", g.shared_block_bytes},
          {"shared_unit_bytes", g.shared_unit_bytes},
          {"registers_unit", g.registers_unit},
          {"threads_unit", g.threads_unit},
          {"threads_block", g.threads_block},
          {"memory_bytes", g.memory_bytes},
          {"memory_gbs", g.memory_gbs},
          {"chiplets", g.chiplets}};
}

void read_gpu(const nlohmann::json& j, GpuFeatures& g) {
  j.at("sm").get_to(g.sm);
  j.at("arch_specific").get_to(g.arch_specific);
  j.at("wave").get_to(g.wave);
  j.at("shared_block_bytes").get_to(g.shared_block_bytes);
  j.at("shared_unit_bytes").get_to(g.shared_unit_bytes);
  j.at("registers_unit").get_to(g.registers_unit);
  j.at("threads_unit").get_to(g.threads_unit);
  j.at("threads_block").get_to(g.threads_block);
  j.at("memory_bytes").get_to(g.memory_bytes);
  j.at("memory_gbs").get_to(g.memory_gbs);
  j.at("chiplets").get_to(g.chiplets);
}

}  // namespace

nlohmann::json to_json(const DeviceCaps& d) {
  return {{"vendor", d.vendor.name},
          {"arch", d.arch},
          {"model", d.model},
          {"avx2_fma", d.cpu.avx2_fma},
          {"avx512", d.cpu.avx512},
          {"avx512_bf16", d.cpu.avx512_bf16},
          {"avx512_vnni", d.cpu.avx512_vnni},
          {"amx_bf16", d.cpu.amx_bf16},
          {"amx_int8", d.cpu.amx_int8},
          {"gpu", to_json(d.gpu)},
          {"compute_units", d.compute_units},
          {"l1_bytes", d.l1_bytes},
          {"l2_bytes", d.l2_bytes},
          {"l3_bytes", d.l3_bytes},
          {"ghz", d.ghz}};
}

Result<DeviceCaps> caps_from(const nlohmann::json& j) {
  return decoded([&] {
    DeviceCaps d;
    const auto vendor = vendor_named(j.at("vendor").get<std::string>());
    if (!vendor)
      throw std::invalid_argument(fmt::format("vendor: {}", j.at("vendor").get<std::string>()));
    d.vendor = *vendor;
    j.at("arch").get_to(d.arch);
    j.at("model").get_to(d.model);
    j.at("avx2_fma").get_to(d.cpu.avx2_fma);
    j.at("avx512").get_to(d.cpu.avx512);
    j.at("avx512_bf16").get_to(d.cpu.avx512_bf16);
    j.at("avx512_vnni").get_to(d.cpu.avx512_vnni);
    j.at("amx_bf16").get_to(d.cpu.amx_bf16);
    j.at("amx_int8").get_to(d.cpu.amx_int8);
    read_gpu(j.at("gpu"), d.gpu);
    j.at("compute_units").get_to(d.compute_units);
    j.at("l1_bytes").get_to(d.l1_bytes);
    j.at("l2_bytes").get_to(d.l2_bytes);
    j.at("l3_bytes").get_to(d.l3_bytes);
    j.at("ghz").get_to(d.ghz);
    return d;
  });
}

nlohmann::json to_json(const std::variant<Timing, Failure>& outcome) {
  if (const auto* t = std::get_if<Timing>(&outcome)) {
    nlohmann::json timing{{"median_ns", t->median_ns},
                          {"low_ns", t->low_ns},
                          {"high_ns", t->high_ns},
                          {"samples", t->samples}};
    if (t->joules > 0) timing["joules"] = t->joules;
    if (t->sm_mhz > 0) timing["sm_mhz"] = t->sm_mhz;
    return timing;
  }
  const auto& f = std::get<Failure>(outcome);
  return {{"kind", static_cast<int>(f.kind)}, {"detail", f.detail}};
}

Result<std::variant<Timing, Failure>> outcome_from(const nlohmann::json& j) {
  return decoded([&]() -> std::variant<Timing, Failure> {
    if (j.contains("kind")) {
      const int kind = j.at("kind").get<int>();
      if (kind < 0 || kind > static_cast<int>(Failure::kLastKind))
        throw std::out_of_range(fmt::format("kind = {}: no failure is called so", kind));
      return Failure{static_cast<Failure::Kind>(kind), printable(j.at("detail"))};
    }
    const Timing t{.median_ns = j.at("median_ns").get<double>(),
                   .low_ns = j.at("low_ns").get<double>(),
                   .high_ns = j.at("high_ns").get<double>(),
                   .samples = j.at("samples").get<int>(),
                   .joules = j.value("joules", 0.0),
                   .sm_mhz = j.value("sm_mhz", 0)};
    if (!(t.median_ns > 0) || !std::isfinite(t.median_ns))
      throw std::out_of_range(fmt::format("median_ns = {}: no time", t.median_ns));
    if (!(t.joules >= 0) || !std::isfinite(t.joules))
      throw std::out_of_range(fmt::format("joules = {}: no energy", t.joules));
    if (t.sm_mhz < 0) throw std::out_of_range(fmt::format("sm_mhz = {}: no clock", t.sm_mhz));
    return t;
  });
}

nlohmann::json answer_of(const std::variant<Timing, Failure>& outcome, Round round, bool verified) {
  return {
      {"outcome", to_json(outcome)}, {"round", static_cast<int>(round)}, {"verified", verified}};
}

double peak_flops_of(const nlohmann::json& answer) {
  const auto told = answer.find("peak_flops");
  if (told == answer.end() || !told->is_number()) return 0;
  const auto flops = told->get<double>();
  return std::isfinite(flops) && flops > 0 ? flops : 0;
}

constexpr std::size_t kMostWords = 200;  // of what a worker says in a row

Result<Measured> measured_from(const nlohmann::json& answer) {
  return decoded([&] {
    Measured row;
    auto outcome = outcome_from(answer.at("outcome"));
    if (!outcome) throw std::out_of_range(outcome.error().message);
    row.outcome = std::move(*outcome);
    const int round = answer.at("round").get<int>();
    if (round < 0 || round > static_cast<int>(Round::race))
      throw std::out_of_range(fmt::format("round = {}: there is none", round));
    row.round = static_cast<Round>(round);
    row.verified = answer.at("verified").get<bool>();
    row.disturbed = answer.value("disturbed", std::string()).substr(0, kMostWords);
    return row;
  });
}

}  // namespace kiln
