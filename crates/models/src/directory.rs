//! Finds a model by its name.

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use sortie_core::{Model, ModelDirectory, ModelError};

use crate::text::cut;
use crate::{OFFLINE_MODEL, OfflineModel, Script, ScriptModel};

/// What stands before the path of a script in a model's name.
const SCRIPT_PREFIX: &str = "script:";
/// How many scripts are kept: more than any scenario uses.
const MAX_SCRIPTS: usize = 256;
/// How much of an unknown name an error repeats.
const SHOWN_NAME_CHARS: usize = 80;

/// What the directory needs to know.
#[derive(Clone, Debug, Default)]
pub struct DirectorySettings {
    /// How long the offline model waits before each answer, so that a person can watch.
    pub pace: Duration,
    /// Where relative paths of scripts begin.
    pub base: PathBuf,
}

/// The models of this build: `offline` and `script:FILE`.
#[derive(Debug)]
pub struct Directory {
    settings: DirectorySettings,
    offline: Arc<OfflineModel>,
    /// One model for each script, because a script counts its faults.
    scripts: Mutex<HashMap<PathBuf, Arc<ScriptModel>>>,
}

impl Directory {
    /// A directory with these settings.
    pub fn new(settings: DirectorySettings) -> Self {
        Self {
            offline: Arc::new(OfflineModel::with_pace(settings.pace)),
            settings,
            scripts: Mutex::default(),
        }
    }

    fn script(&self, path: &str) -> Result<Arc<ScriptModel>, ModelError> {
        if path.is_empty() {
            return Err(ModelError::fatal(
                "`script:` needs a file: `script:scenario.yaml`",
            ));
        }
        let path = self.settings.base.join(path);
        let mut scripts = self.scripts.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(model) = scripts.get(&path) {
            return Ok(Arc::clone(model));
        }
        if scripts.len() >= MAX_SCRIPTS {
            return Err(ModelError::fatal(format!(
                "{MAX_SCRIPTS} scripts are in use; put the rules into fewer files"
            )));
        }
        let script = Script::from_path(&path).map_err(|error| ModelError::fatal(error.whole()))?;
        let model = Arc::new(ScriptModel::new(script));
        scripts.insert(path, Arc::clone(&model));
        Ok(model)
    }
}

impl ModelDirectory for Directory {
    fn find(&self, name: &str) -> Result<Arc<dyn Model>, ModelError> {
        if name == OFFLINE_MODEL {
            return Ok(Arc::clone(&self.offline) as Arc<dyn Model>);
        }
        if let Some(path) = name.strip_prefix(SCRIPT_PREFIX) {
            return Ok(self.script(path)?);
        }
        Err(ModelError::fatal(format!(
            "there is no model {:?}: this build knows `offline` and `script:FILE`; other providers \
             come with a later release",
            cut(name, SHOWN_NAME_CHARS)
        )))
    }
}
