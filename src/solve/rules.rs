//! How many components to keep (seed, "Determining the Number of Principal Directions").
//!
//! | `-k` | rule |
//! |---|---|
//! | 10 | that many, at most the rank |
//! | 0.95 | the fewest whose share of the total variance reaches it |
//! | mle | Minka's Bayesian evidence, *Automatic choice of dimensionality for PCA*, eq. 78 |
//! | elbow | the knee of Cattell's scree ([`super::elbow`]) |
//! | value>T | those whose value, as a model reports it, is more than T |
//! | ratio>R | those whose own share of the total is more than R (Abdi & Williams' ratio) |
//! | all | the rank |
//!
//! A model reports λ over the degrees of freedom, the variance along a component; of supervised
//! methods λ itself, the dependence on labels.
//!
//! Every rule's answer is computed, whichever was asked, so that a person can judge. O(d²) time.

use super::elbow::elbow;
use super::minka::mle;
use super::spectrum::Spectrum;
use crate::error::{Error, Place, Result};
use crate::words::five_digits;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;

/// Components kept when `-k` is not given.
pub(crate) const DEFAULT_COMPONENTS: usize = 10;

/// Ratios whose answers are always told.
const RATIOS: [f64; 3] = [0.90, 0.95, 0.99];

/// The least share of a single component whose answer is always told.
const LEAST_RATIO: f64 = 0.01;

/// How the elbow is found; models of before, which say nothing here, took the largest relative
/// drop.
const ELBOW_BY: &str = "chord";

/// `-k` as asked.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Components {
    /// A number.
    Count(usize),
    /// A share of the variance.
    Ratio(f64),
    /// Minka.
    Mle,
    /// Cattell.
    Elbow,
    /// Those whose variance (of supervised methods: eigenvalue) is more than this.
    ValueAbove(f64),
    /// Those whose own share of the variance (of supervised methods: dependence) is more than this.
    RatioAbove(f64),
    /// As many as there are.
    All,
}

impl From<usize> for Components {
    fn from(count: usize) -> Components {
        Components::Count(count)
    }
}

impl Default for Components {
    fn default() -> Self {
        Components::Count(DEFAULT_COMPONENTS)
    }
}

impl FromStr for Components {
    type Err = String;

    fn from_str(text: &str) -> std::result::Result<Self, String> {
        match text {
            "mle" => return Ok(Components::Mle),
            "elbow" => return Ok(Components::Elbow),
            "all" => return Ok(Components::All),
            _ => {}
        }
        if let Some(threshold) = threshold(text) {
            return threshold;
        }
        match (text.parse::<usize>(), text.parse::<f64>()) {
            (Ok(0), _) => Err("0 components are none at all; ask for at least 1".into()),
            (Ok(k), _) => Ok(Components::Count(k)),
            (_, Ok(r)) if r > 0.0 && r < 1.0 => Ok(Components::Ratio(r)),
            _ => Err(format!(
                "'{text}' is neither a number of components, a ratio between 0 and 1, 'value>T', \
                 'ratio>R', mle, elbow nor all"
            )),
        }
    }
}

/// `value>T` and `ratio>R`.
fn threshold(text: &str) -> Option<std::result::Result<Components, String>> {
    // What is left of an unquoted one: the shell has taken the rest for the name of a file.
    if matches!(text, "value" | "ratio") {
        return Some(Err(format!("a threshold is missing; in quotes, '{text}>0.1'")));
    }
    let (name, number) = text.split_once('>')?;
    let components = match (name.trim_end(), number.trim_start().parse::<f64>()) {
        ("value", Ok(least)) if least >= 0.0 && least.is_finite() => {
            Ok(Components::ValueAbove(least))
        }
        ("ratio", Ok(least)) if (0.0..1.0).contains(&least) => Ok(Components::RatioAbove(least)),
        ("value", _) => Err(format!("'{text}': a threshold of values is a number from 0 on")),
        ("ratio", _) => {
            Err(format!("'{text}': a threshold of ratios is at least 0 and less than 1"))
        }
        _ => Err(format!("'{text}': thresholds are 'value>T' and 'ratio>R'")),
    };
    Some(components)
}

impl fmt::Display for Components {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Components::Count(k) => write!(f, "{k}"),
            Components::Ratio(r) => write!(f, "{r}"),
            Components::Mle => f.write_str("mle"),
            Components::Elbow => f.write_str("elbow"),
            Components::ValueAbove(least) => write!(f, "value>{least}"),
            Components::RatioAbove(least) => write!(f, "ratio>{least}"),
            Components::All => f.write_str("all"),
        }
    }
}

/// A rule's answer.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RuleAnswer {
    /// The rule, as `-k` takes it.
    pub rule: String,
    /// How many components it keeps; null where it does not apply.
    pub components: Option<usize>,
    /// Why it does not apply.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// How it is found, of the elbow: "chord". Models of before have none, and took the largest
    /// relative drop.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub by: Option<String>,
}

/// How many pairs are wanted, given Ritz values and their residuals over the first.
pub(crate) type Wanted<'a> = dyn Fn(&[f64], &[f64]) -> Option<usize> + 'a;

/// What the eigenvalues of a problem are measured by.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Measure {
    /// Their sum.
    pub(crate) total: f64,
    /// A model reports λ over this.
    pub(crate) unit: f64,
}

impl Components {
    /// True where the leading eigenvalues are enough to answer.
    pub(crate) fn is_leading(self) -> bool {
        !matches!(self, Components::Mle | Components::Elbow | Components::All)
    }

    /// True where a value is more than the threshold; `None` where there is no threshold.
    fn exceeds(self, value: f64, of: Measure) -> Option<bool> {
        match self {
            Components::ValueAbove(least) => Some(value / of.unit > least),
            Components::RatioAbove(least) => Some(value / of.total > least),
            _ => None,
        }
    }

    /// How many leading pairs are wanted, given Ritz values and their residuals over the first;
    /// `None` while that cannot be said.
    ///
    /// A Ritz value is no larger than its eigenvalue, so those above a threshold are above it. The
    /// first that is not must be so with its residual, too.
    pub(crate) fn wanted(self, ritz: &[f64], residuals: &[f64], of: Measure) -> Option<usize> {
        match self {
            Components::Count(k) => Some(k),
            Components::Ratio(share) => {
                cumulated(ritz, of.total).position(|c| c >= share).map(|i| i + 1)
            }
            Components::ValueAbove(_) | Components::RatioAbove(_) => {
                let exceeds = |value: f64| self.exceeds(value, of).unwrap_or(false);
                let k = ritz.iter().take_while(|value| exceeds(**value)).count();
                let next = ritz.get(k)? + residuals.get(k)? * ritz[0];
                // One at least: of none, the largest is told.
                (!exceeds(next)).then_some(k.max(1))
            }
            Components::Mle | Components::Elbow | Components::All => None,
        }
    }
}

/// What a rule says: how many, or why it does not apply.
type Said = std::result::Result<usize, String>;

/// Everything the rules say of one spectrum.
#[derive(Debug, Clone)]
pub struct Rules {
    /// Those known and above rounding, descending.
    values: Vec<f64>,
    measure: Measure,
    /// The threshold that no other eigenvalue exceeds.
    exhausted: Option<Components>,
    elbow: Said,
    mle: Said,
    rank: Said,
}

impl Rules {
    /// `weight` stands for n in Minka's evidence, `d` is the number of features.
    pub fn new(spectrum: &Spectrum, trace: f64, weight: f64, d: usize, centered: bool) -> Rules {
        let mut rules = Rules::plain(spectrum, Measure { total: trace, unit: weight - 1.0 });
        if spectrum.whole {
            rules.mle = mle(&rules.values, d, weight, centered);
        }
        rules
    }

    /// For supervised PCA: the shares are of the dependence on the labels.
    pub fn supervised(spectrum: &Spectrum, trace: f64) -> Rules {
        let mle = Err("Minka's rule is about variances, not about the dependence on labels".into());
        Rules { mle, ..Rules::plain(spectrum, Measure { total: trace, unit: 1.0 }) }
    }

    /// For kernel PCA: Minka's rule needs the features of the space the kernel maps to.
    pub(crate) fn kernel(spectrum: &Spectrum, measure: Measure) -> Rules {
        let mle = Err("Minka's rule is about the features, and a kernel has no end of them".into());
        Rules { mle, ..Rules::plain(spectrum, measure) }
    }

    /// All but Minka's.
    fn plain(spectrum: &Spectrum, measure: Measure) -> Rules {
        let values = spectrum.values.iter().take(spectrum.above).copied().collect::<Vec<_>>();
        let known = match (spectrum.whole, spectrum.values.len()) {
            (true, _) => Ok(()),
            (false, known) => Err(format!("only the {known} leading eigenvalues were computed")),
        };
        let elbow = known.clone().map(|()| elbow(&values));
        let (mle, rank) = (known.clone().map(|()| 0), known.map(|()| values.len()));
        Rules { values, measure, exhausted: None, elbow, mle, rank }
    }

    /// The eigenvalues that are known are all that exceed the threshold that was asked for, if one
    /// was.
    pub(crate) fn exhausting(self, asked: Components) -> Rules {
        Rules { exhausted: Some(asked), ..self }
    }

    /// How many components to keep.
    pub fn keep(&self, asked: Components) -> Result<usize> {
        if let Components::Count(k) = asked {
            return Ok(k.min(self.values.len()));
        }
        let kept = self.said(asked).map_err(|reason| {
            Error::Misuse(format!(
                "⟦components={asked}⟧ cannot choose: {reason}; give a number of components"
            ))
        })?;
        match self.values.first() {
            Some(largest) if kept == 0 => Err(self.none_exceeds(asked, *largest)),
            _ => Ok(kept),
        }
    }

    /// How many to keep of those that were looked for: those above a threshold, else all of them
    /// that are more than rounding.
    pub(crate) fn keep_found(&self, asked: Components, found: usize) -> Result<usize> {
        match asked {
            Components::ValueAbove(_) | Components::RatioAbove(_) => {
                Ok(self.keep(asked)?.min(found))
            }
            _ => Ok(found.min(self.values.len())),
        }
    }

    fn none_exceeds(&self, asked: Components, largest: f64) -> Error {
        let (what, largest) = match asked {
            Components::RatioAbove(_) => ("ratio", largest / self.measure.total),
            _ => ("value", largest / self.measure.unit),
        };
        let largest = five_digits(largest);
        let problem = format!(
            "no component has what ⟦components={asked}⟧ asks for: the largest {what} is {largest}"
        );
        Error::data(Place::default(), problem)
    }

    /// The answers of all rules, and of the one that was asked.
    pub fn answers(&self, asked: Components) -> Vec<RuleAnswer> {
        let mut rules: Vec<Components> = RATIOS.iter().map(|r| Components::Ratio(*r)).collect();
        rules.push(Components::RatioAbove(LEAST_RATIO));
        let counted = matches!(asked, Components::Count(_));
        if asked.is_leading() && !counted && !rules.contains(&asked) {
            rules.push(asked);
        }
        rules.extend([Components::Mle, Components::Elbow, Components::All]);
        let answer = |rule: Components| {
            let said = self.said(rule);
            RuleAnswer {
                rule: rule.to_string(),
                components: said.as_ref().ok().copied(),
                reason: said.err(),
                by: (rule == Components::Elbow).then(|| ELBOW_BY.into()),
            }
        };
        rules.into_iter().map(answer).collect()
    }

    fn said(&self, rule: Components) -> Said {
        match rule {
            Components::Count(k) => Ok(k.min(self.values.len())),
            Components::Ratio(share) => self.ratio(share),
            Components::ValueAbove(_) | Components::RatioAbove(_) => self.above(rule),
            Components::All => self.rank.clone(),
            Components::Elbow => self.elbow.clone(),
            Components::Mle => self.mle.clone(),
        }
    }

    fn ratio(&self, share: f64) -> Said {
        let reached = cumulated(&self.values, self.measure.total);
        let below = reached.take_while(|c| *c < share).count();
        match &self.rank {
            // The last cumulated share may miss 1 by rounding; no share below 1 is out of reach.
            Ok(rank) => Ok((below + 1).min(*rank)),
            Err(_) if below < self.values.len() => Ok(below + 1),
            Err(unknown) => Err(unknown.clone()),
        }
    }

    fn above(&self, rule: Components) -> Said {
        let exceeds = |value: &f64| rule.exceeds(*value, self.measure).unwrap_or(false);
        let above = self.values.iter().take_while(|value| exceeds(value)).count();
        let exhausted = self.exhausted == Some(rule) || above < self.values.len();
        match &self.rank {
            Err(unknown) if !exhausted => Err(unknown.clone()),
            _ => Ok(above),
        }
    }
}

/// λ₁, λ₁ + λ₂, … over the total.
pub(crate) fn cumulated(values: &[f64], total: f64) -> impl Iterator<Item = f64> + '_ {
    values.iter().scan(0.0, move |sum, v| {
        *sum += v;
        Some(*sum / total)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn components_are_read_as_typed() {
        assert_eq!("12".parse(), Ok(Components::Count(12)));
        assert_eq!("0.95".parse(), Ok(Components::Ratio(0.95)));
        assert_eq!("mle".parse(), Ok(Components::Mle));
        assert_eq!("value>1.5".parse(), Ok(Components::ValueAbove(1.5)));
        assert_eq!("value > 0".parse(), Ok(Components::ValueAbove(0.0)));
        assert_eq!("ratio>0.01".parse(), Ok(Components::RatioAbove(0.01)));
        for text in ["12", "0.95", "mle", "elbow", "all", "value>1.5", "ratio>0.01"] {
            assert_eq!(text.parse::<Components>().unwrap().to_string(), text);
        }
        let thresholds = ["value", "ratio>", "value>-1", "value>inf", "ratio>1", "share>0.1", ">1"];
        for bad in ["0", "1.0", "-3", "0.0", "many", "nan", ""].iter().chain(&thresholds) {
            assert!(bad.parse::<Components>().is_err(), "{bad}");
        }
    }

    fn rules(spectrum: &Spectrum, rows: f64) -> Rules {
        let total = spectrum.values.sum();
        Rules::new(spectrum, total, rows, spectrum.values.len(), true)
    }

    #[test]
    fn thresholds_keep_what_exceeds_them() {
        let whole = Spectrum::whole([60.0, 30.0, 10.0, 1e-30].into_iter(), 1e-15, 4);
        let rules = rules(&whole, 11.0);
        let keep = |text: &str| rules.keep(text.parse().unwrap()).map_err(|e| e.sentence());
        // Variances are 6, 3 and 1, shares 0.6, 0.3 and 0.1.
        assert_eq!(keep("value>1"), Ok(2), "not equal, more");
        assert_eq!(keep("value>0.99"), Ok(3));
        assert_eq!(keep("value>0"), Ok(3), "rounding is not a value");
        assert_eq!(keep("ratio>0.2"), Ok(2));
        let none = keep("value>6").unwrap_err();
        assert!(none.contains("the largest value is 6"), "{none}");
        let none = keep("ratio>0.7").unwrap_err();
        assert!(none.contains("the largest ratio is 0.6"), "{none}");
        let supervised = Rules::supervised(&whole, 100.0);
        assert_eq!(supervised.keep(Components::ValueAbove(29.0)).unwrap(), 2, "λ itself");
        let said = rules.answers(Components::ValueAbove(2.0));
        let names: Vec<&str> = said.iter().map(|a| a.rule.as_str()).collect();
        let all = ["0.9", "0.95", "0.99", "ratio>0.01", "value>2", "mle", "elbow", "all"];
        assert_eq!(names, all);
        let elbow = rules.answers(Components::Elbow);
        assert_eq!(elbow.len(), 7, "what is told anyway is told once, in the same place");
        assert_eq!(said[4].components, Some(2));
        assert_eq!(said[6].by.as_deref(), Some("chord"));
    }

    #[test]
    fn thresholds_need_no_more_than_the_leading_eigenvalues() {
        let leading = Spectrum::leading([60.0, 30.0].into_iter(), 1e-15, 9);
        let rules = Rules::new(&leading, 100.0, 11.0, 9, true);
        let keep = |rules: &Rules, text: &str| rules.keep(text.parse().unwrap()).ok();
        assert_eq!(keep(&rules, "value>5"), Some(1));
        assert_eq!(keep(&rules, "value>2"), None, "the third may exceed it");
        let asked = Components::ValueAbove(2.0);
        assert_eq!(keep(&rules.exhausting(asked), "value>2"), Some(2));
        let of = Measure { total: 100.0, unit: 10.0 };
        let wanted = |residual: f64| asked.wanted(&[60.0, 30.0, 15.0], &[0.0, 0.0, residual], of);
        assert_eq!(wanted(0.01), Some(2));
        assert_eq!(wanted(0.1), None, "its residual leaves room for 2.1");
        assert_eq!(asked.wanted(&[60.0, 30.0], &[0.0; 2], of), None, "more may follow");
        let none = Components::ValueAbove(7.0);
        assert_eq!(none.wanted(&[60.0, 30.0], &[0.0; 2], of), Some(1), "to tell the largest");
    }
}
