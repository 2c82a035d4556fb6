//! The arguments that a schema describes, in all the places where it may do that.

use std::borrow::Cow;
use std::collections::{HashMap, HashSet};

use switchboard_wire::members::Members;
use switchboard_wire::raw::Raw;

use super::types::{
    ArgumentSchemas, MAX_REFERENCES, RULES, TypeWriter, has_any, items, required, takes_typed_names,
};

/// Members that limit how many arguments there are.
const COUNTS: [&str; 2] = ["minProperties", "maxProperties"];
/// References that are not followed.
const OTHER_REFERENCES: [&str; 2] = ["$dynamicRef", "$recursiveRef"];
/// How many alternatives of a schema are read.
const MAX_ALTERNATIVES: usize = 64;

/// The arguments that a schema describes.
#[derive(Default)]
pub(super) struct RootShape<'a> {
    pub(super) properties: Vec<(Cow<'a, str>, ArgumentSchemas<'a>)>,
    pub(super) required: Vec<String>,
    /// Whether it describes more than properties.
    pub(super) is_partial: bool,
    /// The place of each of `properties`.
    places: HashMap<Cow<'a, str>, usize>,
}

impl<'a> RootShape<'a> {
    fn argument(&mut self, name: Cow<'a, str>) -> &mut ArgumentSchemas<'a> {
        let place = *self.places.entry(name.clone()).or_insert_with(|| {
            self.properties.push((name, ArgumentSchemas::default()));
            self.properties.len() - 1
        });
        &mut self.properties[place].1
    }
}

impl<'a> TypeWriter<'a> {
    pub(super) fn root_shape(&mut self) -> RootShape<'a> {
        let mut shape = RootShape::default();
        self.collect(self.root, 0, &mut shape);
        // A required argument needs no property of its own.
        for name in shape.required.clone() {
            shape.argument(Cow::Owned(name));
        }
        shape
    }

    fn collect(&mut self, schema: Raw<'a>, depth: usize, shape: &mut RootShape<'a>) {
        let Some(members) = self.members(schema) else {
            shape.is_partial |= schema.get().starts_with('{');
            return;
        };
        for (name, property) in
            members.get("properties").and_then(|it| self.members(it)).unwrap_or_default().0
        {
            shape.argument(name).all.push(property);
        }
        shape.required.extend(required(&members));
        shape.is_partial |= has_any(&members, &RULES)
            || has_any(&members, &COUNTS)
            || has_any(&members, &OTHER_REFERENCES)
            || takes_typed_names(&members);
        if depth > MAX_REFERENCES {
            shape.is_partial = true;
            return;
        }
        if members.get("$ref").is_some() {
            match self.referenced(&members) {
                Some(target) => self.collect(target, depth + 1, shape),
                None => shape.is_partial = true,
            }
        }
        for part in members.get("allOf").map(items).unwrap_or_default() {
            self.collect(part, depth + 1, shape);
        }
        for key in ["anyOf", "oneOf"] {
            let all = members.get(key).map(items).unwrap_or_default();
            self.collect_alternatives(&all, depth + 1, shape);
        }
        let of_conditions = ["then", "else"].into_iter().filter_map(|key| members.get(key));
        let of_dependencies = members.get("dependentSchemas").and_then(Members::of).unwrap_or_default().0;
        let conditional = of_conditions.chain(of_dependencies.into_iter().map(|(_, schema)| schema));
        for schema in conditional.take(MAX_ALTERNATIVES) {
            let mut other = RootShape::default();
            self.collect(schema, depth + 1, &mut other);
            for (name, said) in other.properties {
                // What is known without the condition stays as it is.
                if !shape.places.contains_key(&name) {
                    shape.argument(name).any.extend(said.schemas());
                }
            }
        }
    }

    /// The arguments of schemas of which one holds.
    fn collect_alternatives(&mut self, all: &[Raw<'a>], depth: usize, shape: &mut RootShape<'a>) {
        let mut needed: Option<HashSet<String>> = None;
        let mut found: Vec<(Cow<'a, str>, Vec<Raw<'a>>, usize)> = Vec::new();
        let mut places = HashMap::new();
        for alternative in all.iter().take(MAX_ALTERNATIVES) {
            let mut other = RootShape::default();
            self.collect(*alternative, depth, &mut other);
            let required: HashSet<String> = other.required.into_iter().collect();
            needed = Some(match needed {
                Some(before) => before.intersection(&required).cloned().collect(),
                None => required,
            });
            for (name, said) in other.properties {
                let place = *places.entry(name.clone()).or_insert_with(|| {
                    found.push((name, Vec::new(), 0));
                    found.len() - 1
                });
                let (_, schemas, count) = &mut found[place];
                schemas.extend(said.schemas());
                *count += 1;
            }
        }
        for (name, schemas, count) in found {
            // What only some alternatives say limits nothing that is known otherwise.
            if count == all.len() || !shape.places.contains_key(&name) {
                shape.argument(name).any.extend(schemas);
            }
        }
        if all.len() <= MAX_ALTERNATIVES {
            let mut needed: Vec<String> = needed.into_iter().flatten().collect();
            needed.sort();
            shape.required.extend(needed);
        }
    }
}
