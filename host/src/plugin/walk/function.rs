//! Estimates what a function costs to compile.
//!
//! Compilers take about linear time for straight code, and far more where many values live across many branches: where
//! paths meet, each value that may differ needs a phi, which is passed on through all surrounding blocks; and around
//! each branch and call it needs a register or a stack slot. So each label, branch and call counts once for each
//! operand that is on the stack there, and for each local that the function uses as often as blocks are nested there.
//! Operations that look into a table, or work on a range of a table or memory, become a checked loop: as much to
//! compile as a small function, and more the more of them there are. Values without a branch need a register or a slot as
//! well, at little cost. Everything else counts once, and so does each local.

use wasmparser::{FuncValidator, FunctionBody, Operator, ValidatorResources};

use super::{PluginError, invalid_component, widen_to_u64};

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

/// How many values have to be live at an operator that is no branch, to count as one step.
const VALUES_OF_A_STEP: u64 = 128;

/// Validates a function.
///
/// # Errors
/// When it is invalid.
pub(super) fn function_cost(
    validator: &mut FuncValidator<ValidatorResources>,
    body: &FunctionBody<'_>,
) -> Result<u64, PluginError> {
    let mut reader = body.get_binary_reader();
    // It allows 50,000.
    validator.read_locals(&mut reader).map_err(invalid_component)?;
    let locals = validator.len_locals();
    let mut used = vec![false; usize::try_from(locals).unwrap_or(0)];
    let mut uses: u64 = 0;
    let (mut steps, mut blocks, mut crossings) = (u64::from(locals), 0_u64, 0_u64);
    let (mut operands, mut values) = (0_u64, 0_u64);
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
        let height = u64::from(validator.operand_stack_height());
        operands = operands.saturating_add(crossed.saturating_mul(height));
        values = values.saturating_add(height);
    }
    reader.finish_expression(&validator.visitor(reader.original_position())).map_err(invalid_component)?;
    let steps = steps.saturating_add(steps_of_blocks(blocks));
    Ok(steps
        .saturating_add(operands)
        .saturating_add(values / VALUES_OF_A_STEP)
        .saturating_add(crossings.saturating_mul(uses))
        .max(widen_to_u64(body.range().len()) / 8))
}
