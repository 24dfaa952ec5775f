//! Records that are nearly right: what somebody writes who may write, and means harm.

use crate::Random;
use serde_json::Value;

/// Changes so many things in a record: numbers become huge, lists have their items twice or thousands of them, fields change places
/// or go, and what stands elsewhere (`others`) comes in.
pub fn spoil(random: &mut Random, record: &mut Value, others: &[Value], changes: u64) {
    for _ in 0..changes {
        let values = count(record);
        if let Some(place) = nth(record, &mut (random.below(values) as usize)) {
            change(random, place, others);
        }
    }
}

fn change(random: &mut Random, place: &mut Value, others: &[Value]) {
    const NUMBERS: [u64; 10] = [0, 1, 2, 3, 255, 256, u32::MAX as u64, 1 << 63, u64::MAX - 1, u64::MAX];
    match place {
        Value::Array(items) if !items.is_empty() && random.percent(60) => {
            let item = random.pick(items).clone();
            let times = *random.pick(&[1, 1, 8, 300]);
            items.extend(std::iter::repeat_n(item, times));
        }
        Value::Array(items) if random.percent(30) => items.clear(),
        Value::Object(fields) if fields.len() > 1 && random.percent(60) => {
            let names: Vec<String> = fields.keys().cloned().collect();
            let (one, other) = (random.pick(&names).clone(), random.pick(&names).clone());
            let (left, right) = (fields[&one].clone(), fields[&other].clone());
            fields.insert(one, right);
            fields.insert(other, left);
        }
        Value::Object(fields) if !fields.is_empty() && random.percent(30) => {
            let names: Vec<String> = fields.keys().cloned().collect();
            fields.remove(random.pick(&names));
        }
        Value::Number(_) if random.percent(80) => *place = (*random.pick(&NUMBERS)).into(),
        _ if !others.is_empty() && random.percent(70) => {
            let mut other = random.pick(others).clone();
            let values = count(&other);
            if let Some(part) = nth(&mut other, &mut (random.below(values) as usize)) {
                *place = part.take();
            }
        }
        _ => *place = Value::Null,
    }
}

/// How many values a record is made of, itself included.
fn count(record: &Value) -> u64 {
    1 + match record {
        Value::Array(items) => items.iter().map(count).sum(),
        Value::Object(fields) => fields.values().map(count).sum::<u64>(),
        _ => 0,
    }
}

fn nth<'a>(record: &'a mut Value, left: &mut usize) -> Option<&'a mut Value> {
    if *left == 0 {
        return Some(record);
    }
    *left -= 1;
    match record {
        Value::Array(items) => items.iter_mut().find_map(|item| nth(item, left)),
        Value::Object(fields) => fields.values_mut().find_map(|field| nth(field, left)),
        _ => None,
    }
}
