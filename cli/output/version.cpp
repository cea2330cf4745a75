#include "cli/output/version.h"

#include "cache/layers/schema.h"
#include "cache/store.h"
#include "generator/space/space.h"
#include "kiln/engine.hpp"
#include "runtime/compiler.h"
#include "tuner/worker/process.h"

namespace kiln::cli {

Json version_json() {
  const Result<Compiler*> compiler = host_compiler();
  const auto worker = find_worker();
  Json shipped = Json::array();
  for (const auto& file : default_shipped()) shipped.push_back(file.string());
  return {{"version", version()},
          {"schema_version", schema_version()},
          {"compiler", compiler ? Json((*compiler)->version()) : Json(nullptr)},
          {"worker", worker ? Json(worker->string()) : Json(nullptr)},
          {"database", default_database().string()},
          {"shipped", shipped}};
}

}  // namespace kiln::cli
