#include "engine/ops/registry.hpp"

#include "engine/core/text.hpp"
#include "engine/ops/activation.hpp"
#include "engine/ops/attention.hpp"
#include "engine/ops/bits.hpp"
#include "engine/ops/clustering_loss.hpp"
#include "engine/ops/conv.hpp"
#include "engine/ops/distance.hpp"
#include "engine/ops/dropout.hpp"
#include "engine/ops/elementwise.hpp"
#include "engine/ops/layout.hpp"
#include "engine/ops/linear.hpp"
#include "engine/ops/loss.hpp"
#include "engine/ops/maps.hpp"
#include "engine/ops/masked_product.hpp"
#include "engine/ops/matmul.hpp"
#include "engine/ops/normalize.hpp"
#include "engine/ops/norms.hpp"
#include "engine/ops/quantize.hpp"
#include "engine/ops/random_stream.hpp"
#include "engine/ops/reduce.hpp"
#include "engine/ops/scan.hpp"
#include "engine/ops/sort.hpp"

namespace gradus {

const std::vector<const OpDef*>& all_ops() {
  static const std::vector<const OpDef*> all = [] {
    std::vector<const OpDef*> ops;
    for (const auto family : {core_ops(),
                              unary_ops(),
                              binary_ops(),
                              activation_ops(),
                              logic_ops(),
                              reduce_ops(),
                              statistics_ops(),
                              scan_ops(),
                              sort_ops(),
                              layout_ops(),
                              arrange_ops(),
                              indexing_ops(),
                              matmul_ops(),
                              normalize_ops(),
                              distance_ops(),
                              norms_ops(),
                              batch_norm_ops(),
                              dropout_ops(),
                              linear_ops(),
                              einsum_ops(),
                              loss_ops(),
                              classification_loss_ops(),
                              clustering_loss_ops(),
                              quantize_ops(),
                              cdist_ops(),
                              conv_ops(),
                              pool_ops(),
                              sparse_map_ops(),
                              gumbel_ops(),
                              masked_product_ops(),
                              random_stream_ops(),
                              bits_ops(),
                              attention_ops()})
      ops.insert(ops.end(), family.begin(), family.end());
    return ops;
  }();
  return all;
}

const OpDef& find_op(std::string_view name) {
  std::vector<std::string> names;
  for (const OpDef* op : all_ops()) {
    if (op->name == name) return *op;
    names.emplace_back(op->name);
  }
  throw ValueError("ops", cat("no op named '", name, "'"), suggest_names(name, names));
}

}  // namespace gradus
