#include "tuner/worker/own_check.h"

#include <errno.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <random>

#include "generator/problem/extent.h"
#include "runtime/memory.h"
#include "tuner/verify/judge.h"
#include "tuner/verify/ragged.h"
#include "tuner/worker/process.h"

namespace kiln {
namespace {

tl::unexpected<Failure> no_room(std::string why) {
  return tl::unexpected(Failure{Failure::Kind::resources, std::move(why)});
}

std::uint64_t drawn() {
  std::random_device source;
  return (std::uint64_t{source()} << 32 | source()) | 1;  // not 0
}

/// D, poisoned, in memory that a worker can be handed and that keeps its size: a shorter file would
/// make this process fault.
class SharedOutput {
 public:
  static Result<SharedOutput> make(const Gemm& gemm) {
    SharedOutput d;
    d.bytes_ = output_bytes(gemm);
    d.file_ = Fd(memfd_create("kiln-d", MFD_CLOEXEC | MFD_ALLOW_SEALING));
    if (d.file_.get() < 0) return failed("memfd_create", d.bytes_);
    if (ftruncate(d.file_.get(), static_cast<off_t>(d.bytes_)) != 0)
      return failed("ftruncate", d.bytes_);
    if (fcntl(d.file_.get(), F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) != 0)
      return failed("F_ADD_SEALS", d.bytes_);
    d.data_ = mmap(nullptr, d.bytes_, PROT_READ | PROT_WRITE, MAP_SHARED, d.file_.get(), 0);
    if (d.data_ == MAP_FAILED) return failed("mmap", d.bytes_);
    auto* const bytes = static_cast<std::byte*>(d.data_);
    poison(gemm.d.dtype, {bytes, static_cast<std::size_t>(span_bytes(gemm, Operand::d))});
    for (const Operand which : kBesideD)
      if (is_output(gemm, which))
        poison(dtype_of(gemm, which), {bytes + place_beside_d(gemm, which),
                                       static_cast<std::size_t>(span_bytes(gemm, which))});
    return d;
  }
  SharedOutput(SharedOutput&& other) noexcept
      : file_(std::move(other.file_)),
        data_(std::exchange(other.data_, MAP_FAILED)),
        bytes_(other.bytes_) {}
  ~SharedOutput() {
    if (data_ != MAP_FAILED) munmap(data_, bytes_);
  }
  int file() const { return file_.get(); }
  const void* data() const { return data_; }

 private:
  SharedOutput() = default;
  static tl::unexpected<Error> failed(const char* call, std::size_t bytes) {
    return fail(ErrorCode::device,
                fmt::format("D of {} bytes: {}: {}", bytes, call, strerror(errno)));
  }

  Fd file_;
  void* data_ = MAP_FAILED;
  std::size_t bytes_ = 0;
};

/// One call in a worker that ran nothing before; over when this returns, so D changes no more.
Verdict run_in_fresh_worker(const nlohmann::json& request, const Binary& binary, int output,
                            double seconds) {
  const auto image = memory_file("kiln-image", binary.image);
  if (!image) return no_room(image.error().message);
  const auto executable = find_worker();
  if (!executable) return no_room(executable.error().message);
  auto worker = WorkerProcess::start(*executable);
  if (!worker) return no_room(worker.error().message);
  const auto reply = worker->ask(request, std::array{image->get(), output}, seconds);
  if (!reply && reply.error().kind == Failure::Kind::crashed && !worker->came_to_code())
    return no_room(reply.error().detail);
  if (!reply) return tl::unexpected(reply.error());
  if (const auto error = reply->body.find("error"); error != reply->body.end())
    return no_room(error->dump());
  return {};
}

}  // namespace

double seconds_on_cpu(const Gemm& gemm, double each_flop) { return 30 + each_flop * gemm.flops(); }

DataRecipe own_recipe(std::uint64_t seed) { return {.data = Data::uniform, .seed = seed}; }

namespace {

/// Up to the first that is written beside D, from `which` on; from `end` on all of it.
std::size_t bytes_before(const Gemm& gemm, std::optional<Operand> end) {
  constexpr std::size_t kEach = sizeof(double);
  auto bytes = static_cast<std::size_t>(span_bytes(gemm, Operand::d));
  for (const Operand which : kBesideD) {
    if (which != end && !is_output(gemm, which)) continue;
    bytes = (bytes + kEach - 1) / kEach * kEach;
    if (which == end) break;
    bytes += static_cast<std::size_t>(span_bytes(gemm, which));
  }
  return bytes;
}

}  // namespace

std::size_t output_bytes(const Gemm& gemm) {
  return std::max<std::size_t>(1, bytes_before(gemm, std::nullopt));
}

std::size_t place_beside_d(const Gemm& gemm, Operand which) { return bytes_before(gemm, which); }

void bind_outputs(const Gemm& gemm, std::byte* memory, Operands& operands) {
  operands.d = memory;
  for_each_operand([&](auto which) {
    constexpr Operand kWhich = which;
    if constexpr (kWhich != Operand::d && may_be_written(kWhich))
      if (is_output(gemm, kWhich))
        pointer<kWhich>(operands) = memory + place_beside_d(gemm, kWhich);
  });
}

OwnCheck::OwnCheck(const Gemm& gemm, const DeviceCaps& device)
    : gemm_(gemm), device_(device), seed_(drawn()), lines_seed_(drawn()) {}

Verdict OwnCheck::prepare(const Gemm& gemm) {
  if (inputs_ && prepared_ == gemm) return {};
  inputs_.reset();
  // Twice: the worker makes its own.
  const double bytes = 2 * DataSet::bytes_needed(gemm) + static_cast<double>(output_bytes(gemm));
  if (Status room =
          room_for(bytes, available_memory(), fmt::format("operands of '{}'", text(gemm)));
      !room)
    return no_room(room.error().message);
  DataRecipe recipe = own_recipe(seed_);
  recipe.lines_seed = lines_seed_;
  auto made = DataSet::make(gemm, recipe);
  if (!made) return no_room(made.error().message);
  inputs_.emplace(std::move(*made));
  prepared_ = gemm;
  return {};
}

Verdict OwnCheck::check(const Config& config, const Binary& binary) {
  const Gemm gemm = proof_problem(gemm_, device_, config);
  if (Verdict ready = prepare(gemm); !ready) return ready;
  auto d = SharedOutput::make(gemm);
  if (!d) return no_room(d.error().message);
  const nlohmann::json request{{"do", "run"},
                               {"gemm", text(gemm)},
                               {"config", text(config)},
                               {"device", to_json(device_)},
                               {"seed", seed_}};
  if (Verdict ran = run_in_fresh_worker(request, binary, d->file(), seconds_on_cpu(gemm)); !ran)
    return ran;
  const auto [alpha, beta] = uniform_scalars(gemm);
  Operands written;
  bind_outputs(gemm, static_cast<std::byte*>(const_cast<void*>(d->data())), written);
  const Outputs got = Outputs::of(written);
  auto failure = judge_paddings(gemm, got);
  if (!failure) failure = judge_values(*inputs_, {alpha, beta, Run::C::separate}, got);
  if (!failure) return {};
  failure->detail = "D as this process compared it: " + failure->detail;
  return tl::unexpected(std::move(*failure));
}

}  // namespace kiln
