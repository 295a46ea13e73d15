// One source of settings, laid over what was there before.
#pragma once

#include <set>
#include <string>
#include <vector>

#include "config/raw_value.h"
#include "spillway/config/finding.h"

namespace spillway::config {

/// The settings of one recipe, file or command line. Mistakes become findings; what is right
/// applies.
class Layer {
 public:
  Layer(ConfigContainer& config, std::vector<Finding>& findings)
      : config_(config), findings_(findings) {}

  /// A YAML document: sections of settings. `origin` names the file.
  void apply_document(const RawValue& document, const std::string& origin);

  /// One "key=value", with or without Hydra's prefixes + and ++.
  void apply_override(const std::string& text);

  /// Gives pairs of settings that mean the same (model.seq_length, dataset.seq_length; the two
  /// use_distributed_optimizer) the value that this layer gave one of them.
  void settle_twins();

  /// What this layer set, wrong values included.
  [[nodiscard]] const std::set<std::string>& touched() const { return touched_; }

 private:
  void set(const std::string& path, const RawValue& value, const std::string& where);
  void refuse(std::vector<std::string> keys, std::string text, std::string fix);

  ConfigContainer& config_;
  std::vector<Finding>& findings_;
  std::set<std::string> touched_;
};

}  // namespace spillway::config
