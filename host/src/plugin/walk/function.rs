//! What a function takes to compile, estimated from what it is.
//!
//! Compilers are about linear in straight code, and far from it where many values live across many branches: where
//! paths meet, each value that may differ needs a phi, which is passed on through all blocks around; and around each
//! branch and call it needs a register or a place on the stack. So each label, branch and call counts once for each
//! operand that is on the stack there, and for each local that the function uses as often as blocks are nested there;
//! everything else counts once.

use wasmparser::{FuncValidator, FunctionBody, Operator, ValidatorResources};

use super::{Measure, Meter, PluginError, invalid, wide};

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
    for group in body.get_locals_reader().map_err(invalid)? {
        let (count, _) = group.map_err(invalid)?;
        locals = locals.saturating_add(count.into());
        meter.at_least(Measure::Locals, locals)?;
    }
    meter.at_least(Measure::Locals, locals)?;

    let mut reader = body.get_binary_reader();
    validator.read_locals(&mut reader).map_err(invalid)?;
    let mut used = vec![false; usize::try_from(locals).unwrap_or(0)];
    let mut uses: u64 = 0;
    let (mut steps, mut crossings, mut operands) = (0_u64, 0_u64, 0_u64);
    while !reader.eof() {
        let at = reader.original_position();
        let operator = reader.peek_operator(&validator.visitor(at)).map_err(invalid)?;
        reader.visit_operator(&mut validator.visitor(at)).map_err(invalid)?.map_err(invalid)?;
        steps += 1;
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
    reader.finish_expression(&validator.visitor(reader.original_position())).map_err(invalid)?;
    Ok(steps.saturating_add(operands).saturating_add(crossings.saturating_mul(uses)).max(wide(body.range().len()) / 8))
}
