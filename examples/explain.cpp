// What kiln says of a shape before it was tuned and after: where the kernel came from, why it was
// chosen, what it beat.
#include <iostream>
#include <kiln/kiln.hpp>

namespace {

void report(const kiln::Progress& progress) {
  if (progress.stage == kiln::Progress::Stage::done)
    std::cout << "best of the search: " << progress.best_config << "\n";
}

}  // namespace

int main() {
  auto opened = kiln::Engine::open(
      {.on_untuned = [](const std::string& what) { std::cout << "told once: " << what << "\n"; }});
  if (!opened) {
    std::cerr << opened.error().message << "\n";
    return 1;
  }
  auto& engine = *opened;
  // A fully connected layer: weights stored [out, in], a bias a column, then GELU.
  const auto layer = kiln::Gemm::row_major(128, 384, 256)
                         .transpose_b()
                         .with_bias(kiln::Bias::per_column)
                         .with_activation(kiln::Activation::gelu_tanh);

  const auto before = engine.explain(layer, 1);
  const auto tuned =
      engine.tune(layer, {.budget = std::chrono::seconds(2), .threads = 1, .progress = report});
  const auto after = engine.explain(layer, 1);
  if (!before || !tuned || !after) {
    std::cerr << "explain: " << (!tuned ? tuned.error().message : "no answer") << "\n";
    return 1;
  }
  std::cout << "--- before\n" << *before << "\n--- after\n" << *after << "\n";
  return before->empty() || after->empty() || *before == *after ? 1 : 0;
}
