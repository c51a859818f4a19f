/* Whether a rule may stand at a place of the node list; private to this folder. The conditions are in host.h. */
#ifndef D9_BACKENDS_HOST_MATCH_H
#define D9_BACKENDS_HOST_MATCH_H

#include "backends/host/host.h"

/* `site` has the nodes filled in, as many as the rule has. */
bool d9_rule_fits(const d9_rule *rule, const d9_site *site);

bool d9_site_makes(const d9_site *site, d9_value_id value);

#endif
