/* Decides whether a rule fits at a position of the node list, by the conditions in host.h; private to this folder. */
#pragma once

#include "backends/host/host.h"

/* True if the rule fits `site`, which has as many nodes as the rule. */
bool d9_rule_fits(const d9_rule *rule, const d9_site *site);

bool d9_site_writes(const d9_site *site, d9_value_id value); /* true if a node of the site writes the value */
