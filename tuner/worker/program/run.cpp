// The "run" request: one call of a kernel, whose D the parent compares itself. The inputs are made
// from the parent's seed; D is the parent's own memory file. What is answered says only that the
// call returned.
#include <errno.h>
#include <fmt/format.h>
#include <string.h>
#include <sys/mman.h>

#include <tuple>

#include "generator/problem/extent.h"
#include "tuner/measure/bound_kernel.h"
#include "tuner/verify/data_set.h"
#include "tuner/verify/own_check.h"
#include "tuner/worker/program/session.h"

namespace kiln {

using nlohmann::json;

namespace {

/// The parent's D as this process sees it; unmapped by the end of the process, which serves this
/// one request.
Result<void*> map_output(const Gemm& gemm, int file) {
  void* mapping = mmap(nullptr, output_bytes(gemm), PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  if (mapping == MAP_FAILED)
    return fail(ErrorCode::device,
                fmt::format("D of {} bytes: mmap: {}", output_bytes(gemm), strerror(errno)));
  return mapping;
}

}  // namespace

json Session::run(const Message& request) {
  const auto failed = [](const Error& e) { return json{{"error", e.message}}; };
  const json& body = request.body;
  const auto gemm = parse_gemm(body.at("gemm").get<std::string>());
  if (!gemm) return failed(gemm.error());
  const auto device = caps_from(body.at("device"));
  if (!device) return failed(device.error());
  if (const Status ok = open_for(*gemm, device->compute_units); !ok) return failed(ok.error());
  enter(WorkerStatus::preparing);
  const auto d = map_output(*gemm, request.files.at(1).get());
  if (!d) return failed(d.error());
  const auto inputs = DataSet::make(*gemm, own_recipe(body.at("seed").get<std::uint64_t>()));
  if (!inputs) return failed(inputs.error());
  confine(device->compute_units, touched_bytes(*gemm));

  enter(WorkerStatus::loading);
  const auto image = read_file(request.files.at(0).get());
  if (!image) return failed(image.error());
  auto loaded = HostKernel::load(*image);
  if (!loaded) return failed(loaded.error());
  BoundKernel kernel(std::move(*loaded), *gemm, device->compute_units);
  enter(WorkerStatus::verifying);
  Operands operands;
  inputs->bind(operands);
  operands.d = *d;
  std::tie(operands.alpha, operands.beta) = uniform_scalars(*gemm);
  if (const Status ran = kernel.run(operands); !ran) return failed(ran.error());
  return {{"ran", true}};
}

}  // namespace kiln
