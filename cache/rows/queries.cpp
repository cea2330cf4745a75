#include "cache/rows/queries.h"

#include "cache/keys.h"
#include "cache/rows/rows.h"

namespace kiln {

void bind_key(SQLite::Statement& row, const BestKey& key, const Validators& now) {
  row.bind(1, key_text(key.device));
  row.bind(2, key_text(key.gemm));
  row.bind(3, key.policy);
  row.bind(4, std::get<std::string>(to_value(key.determinism)));
  row.bind(5, now.template_hash);
  row.bind(6, now.compiler);
}

void bind_class_key(SQLite::Statement& row, const BestKey& key) {
  row.bind(1, key_text(key.device));
  row.bind(2, class_text(key.gemm));
  row.bind(3, key.policy);
  bind_value(row, 4, to_value(key.determinism));
}

}  // namespace kiln
