//! Leaves out whole items until the rest is within a budget of tokens.

use super::AssembledItem;
use crate::definition::Section;

/// Leave out items until the rest fits: first those that alone are over the budget, then the lowest priority, of equals the
/// latest section, of those the last item. Items stand in the order of sections. Returns whether any went.
pub(super) fn cut(items: &mut Vec<(Section, AssembledItem)>, max_tokens: usize) -> bool {
    let before = items.len();
    items.retain(|(_, item)| item.tokens <= max_tokens);
    let mut total: usize = items.iter().map(|(_, item)| item.tokens).sum();
    let mut order: Vec<usize> = (0..items.len()).collect();
    // The sort is stable: of equals, the last stays last.
    order.sort_by_key(|position| {
        items.get(*position).map(|(section, item)| (std::cmp::Reverse(item.priority), *section))
    });
    while total > max_tokens
        && let Some(position) = order.pop()
    {
        total -= items.get(position).map_or(0, |(_, item)| item.tokens);
    }
    order.sort_unstable();
    let mut position = 0;
    items.retain(|_| {
        position += 1;
        order.binary_search(&(position - 1)).is_ok()
    });
    items.len() < before
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::definition::Priority;

    const SECTIONS: [Section; 3] = [Section::State, Section::Knowledge, Section::WorkingMemory];
    const PRIORITIES: [Priority; 4] = [Priority::Low, Priority::Medium, Priority::High, Priority::Critical];

    fn items(parts: &[(usize, usize, usize)]) -> Vec<(Section, AssembledItem)> {
        let mut items: Vec<_> = parts
            .iter()
            .enumerate()
            .map(|(number, (section, priority, tokens))| {
                let (text, memory) = (number.to_string().into(), "m".into());
                (SECTIONS[*section], AssembledItem { text, memory, priority: PRIORITIES[*priority], tokens: *tokens })
            })
            .collect();
        items.sort_by_key(|(section, item)| (*section, std::cmp::Reverse(item.priority)));
        items
    }

    proptest! {
        #[test]
        fn what_stays_is_within_the_budget_in_order_and_nothing_lower_stays_where_a_higher_went(
            parts in prop::collection::vec((0..3_usize, 0..4_usize, 0..20_usize), 0..20),
            budget in 1..60_usize,
        ) {
            let all = items(&parts);
            let mut kept = all.clone();
            let went = cut(&mut kept, budget);
            prop_assert_eq!(went, kept.len() < all.len());
            prop_assert!(kept.iter().map(|(_, item)| item.tokens).sum::<usize>() <= budget);
            let mut rest = all.iter();
            prop_assert!(kept.iter().all(|item| rest.any(|other| other == item)));
            let lowest = kept.iter().map(|(_, item)| item.priority).min();
            let gone = all.iter().filter(|item| !kept.contains(item) && item.1.tokens <= budget);
            let highest = gone.map(|(_, item)| item.priority).max();
            prop_assert!(lowest.is_none() || highest.is_none() || highest <= lowest);
        }
    }
}
