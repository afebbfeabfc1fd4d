// The training steps of the models.
#include "bench/work.hpp"

namespace gradus::bench {

std::vector<Work> model_works() { return {}; }

}  // namespace gradus::bench
