#include "cache/exchange/winners_first.h"

#include <SQLiteCpp/Transaction.h>

namespace kiln {
namespace {

// Negative in between, so that no two rows have one number.
constexpr const char* kConfigs = R"sql(
CREATE TEMP TABLE place (id INTEGER PRIMARY KEY, place INTEGER NOT NULL) STRICT;
INSERT INTO place SELECT id, row_number() OVER (
  ORDER BY id NOT IN (SELECT config_id FROM measurement WHERE winner = 1), id) FROM config;
UPDATE config SET id = -(SELECT place FROM place WHERE place.id = config.id);
UPDATE config SET id = -id;
UPDATE measurement SET config_id = -(SELECT place FROM place WHERE place.id = config_id);
UPDATE measurement SET config_id = -config_id;
DROP TABLE place;
)sql";

constexpr const char* kMeasurements = R"sql(
CREATE TEMP TABLE place (id INTEGER PRIMARY KEY, place INTEGER NOT NULL) STRICT;
INSERT INTO place SELECT id, row_number() OVER (ORDER BY winner DESC, id) FROM measurement;
UPDATE measurement SET id = -(SELECT place FROM place WHERE place.id = measurement.id);
UPDATE measurement SET id = -id;
DROP TABLE place;
)sql";

}  // namespace

void put_winners_first(SQLite::Database& db) {
  db.exec(
      "PRAGMA foreign_keys = OFF");  // between the updates a row names a config that is not there
  SQLite::Transaction change(db);
  db.exec(kConfigs);
  db.exec(kMeasurements);
  change.commit();
  db.exec("PRAGMA foreign_keys = ON");
}

}  // namespace kiln
