//! Estimates what a function costs to compile.
//!
//! Compilers take about linear time for straight code, and far more where many values live across many branches: where
//! paths meet, each value that may differ needs a phi, which is passed on through all surrounding blocks; and around
//! each branch and call it needs a register or a stack slot. So each label, branch and call counts once for each
//! operand that is on the stack there, and for each local that the function uses as often as blocks are nested there.
//! Operations that look into a table, or work on a range of a table or memory, become a checked loop: as much to
//! compile as a small function, and more the more of them there are. Everything else counts once.

use wasmparser::{FuncValidator, FunctionBody, Operator, ValidatorResources};

use super::{Measure, Meter, PluginError, invalid_component, widen_to_u64};

/// What a call takes and gives, at most, without counting for more than one step.
const USUAL_ARITY: u64 = 32;

/// What a compiler makes of an operator: steps, and blocks of code with jumps between them. As measured, at four steps for
/// a microsecond.
fn expansion(operator: &Operator<'_>) -> (u64, u64) {
    match operator {
        Operator::TableCopy { .. } => (2500, 10),
        Operator::TableInit { .. } => (1000, 5),
        Operator::TableGrow { .. } | Operator::CallIndirect { .. } => (600, 2),
        Operator::TableGet { .. } | Operator::TableSet { .. } | Operator::TableFill { .. } => (450, 2),
        Operator::MemoryCopy { .. }
        | Operator::MemoryInit { .. }
        | Operator::MemoryFill { .. }
        | Operator::MemoryGrow { .. } => (250, 0),
        _ => (1, 0),
    }
}

/// Steps for the blocks of a whole function, which grow with their square.
fn steps_of_blocks(blocks: u64) -> u64 {
    blocks.saturating_mul(blocks) / 80
}

/// Validates a function.
///
/// # Errors
/// When it is invalid, or has too many locals.
pub(super) fn function_cost(
    validator: &mut FuncValidator<ValidatorResources>,
    body: &FunctionBody<'_>,
    meter: &mut Meter<'_>,
) -> Result<u64, PluginError> {
    let mut locals = u64::from(validator.len_locals());
    for group in body.get_locals_reader().map_err(invalid_component)? {
        let (count, _) = group.map_err(invalid_component)?;
        locals = locals.saturating_add(count.into());
        meter.raise_measure(Measure::Locals, locals)?;
    }
    meter.raise_measure(Measure::Locals, locals)?;

    let mut reader = body.get_binary_reader();
    validator.read_locals(&mut reader).map_err(invalid_component)?;
    let mut used = vec![false; usize::try_from(locals).unwrap_or(0)];
    let mut uses: u64 = 0;
    let (mut steps, mut blocks, mut crossings, mut operands) = (0_u64, 0_u64, 0_u64, 0_u64);
    while !reader.eof() {
        let at = reader.original_position();
        let operator = reader.peek_operator(&validator.visitor(at)).map_err(invalid_component)?;
        // Behind a jump, where no operands are, the validator goes through all that a call takes and gives.
        let arity = match operator {
            Operator::Call { .. } | Operator::CallIndirect { .. } => operator.operator_arity(validator),
            _ => None,
        };
        let arity = arity.map_or(0, |(takes, gives)| u64::from(takes) + u64::from(gives));
        reader.visit_operator(&mut validator.visitor(at)).map_err(invalid_component)?.map_err(invalid_component)?;
        let (own_steps, own_blocks) = expansion(&operator);
        steps = steps.saturating_add(own_steps + arity.saturating_sub(USUAL_ARITY));
        blocks += own_blocks;
        let crossed = match operator {
            Operator::LocalGet { local_index }
            | Operator::LocalSet { local_index }
            | Operator::LocalTee { local_index } => {
                let slot = usize::try_from(local_index).ok().and_then(|index| used.get_mut(index));
                uses += slot.map_or(0, |used| u64::from(!std::mem::replace(used, true)));
                0
            }
            Operator::BrTable { targets } => u64::from(targets.len()) + 1,
            Operator::Block { .. }
            | Operator::Loop { .. }
            | Operator::If { .. }
            | Operator::Else
            | Operator::End
            | Operator::Br { .. }
            | Operator::BrIf { .. }
            | Operator::Return
            | Operator::Call { .. }
            | Operator::CallIndirect { .. } => 1,
            _ => 0,
        };
        let depth = u64::from(validator.control_stack_height()).max(1);
        crossings = crossings.saturating_add(crossed.saturating_mul(depth));
        operands = operands.saturating_add(crossed.saturating_mul(validator.operand_stack_height().into()));
    }
    reader.finish_expression(&validator.visitor(reader.original_position())).map_err(invalid_component)?;
    let steps = steps.saturating_add(steps_of_blocks(blocks));
    Ok(steps
        .saturating_add(operands)
        .saturating_add(crossings.saturating_mul(uses))
        .max(widen_to_u64(body.range().len()) / 8))
}
